// SPDX-License-Identifier: Apache-2.0
#include "store/Secret.h"

#include <c10/util/hash.h>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <sys/random.h>

namespace fcdp {
namespace {

constexpr size_t blockBytes = 64; // of SHA-1

std::string bytesOfHex(const std::string &digits) {
  std::string bytes;
  for (size_t i = 0; i < digits.size(); i += 2)
    bytes += char(std::stoi(digits.substr(i, 2), nullptr, 16));
  return bytes;
}

std::string padded(std::string key, char with) {
  key.resize(blockBytes, '\0');
  for (char &c : key)
    c = char(c ^ with);
  return key;
}

} // namespace

std::string randomBytes(size_t count) {
  std::string bytes(count, '\0');
  for (size_t got = 0; got < count;) {
    ssize_t more = getrandom(bytes.data() + got, count - got, 0);
    if (more < 0 && errno != EINTR)
      throw std::runtime_error(std::string("getrandom failed: ") +
                               std::strerror(errno));
    got += size_t(std::max<ssize_t>(more, 0));
  }
  return bytes;
}

std::string hmacSha1(const std::string &secret, const std::string &text) {
  std::string key =
      secret.size() > blockBytes ? bytesOfHex(c10::sha1(secret).str()) : secret;
  std::string inner = c10::sha1(padded(key, '\x36') + text).str();
  return c10::sha1(padded(key, '\x5c') + bytesOfHex(inner)).str();
}

std::string proofOf(const std::string &secret,
                    const std::vector<std::string> &parts) {
  std::string text;
  for (const std::string &part : parts)
    text += std::to_string(part.size()) + ":" + part;
  return hmacSha1(secret, text);
}

bool isSameProof(const std::string &one, const std::string &other) {
  unsigned char difference = one.size() == other.size() ? 0 : 1;
  for (size_t i = 0; i < std::min(one.size(), other.size()); ++i)
    difference |= static_cast<unsigned char>(one[i] ^ other[i]);
  return difference == 0;
}

} // namespace fcdp
