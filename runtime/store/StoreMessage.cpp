// SPDX-License-Identifier: Apache-2.0
#include "store/StoreMessage.h"
#include "store/Secret.h"

#include <stdexcept>

namespace fcdp {
namespace {

constexpr size_t lengthBytes = 4, headBytes = 5;

void addNumber(std::string &text, uint32_t number) {
  for (int shift = 0; shift < 32; shift += 8)
    text += char(number >> shift);
}

uint32_t numberAt(const std::string &text, size_t at) {
  uint32_t number = 0;
  for (size_t i = 0; i < lengthBytes; ++i)
    number |= uint32_t(static_cast<unsigned char>(text[at + i])) << (8 * i);
  return number;
}

[[noreturn]] void failMessage() {
  throw std::runtime_error("expected a message of a job's store");
}

} // namespace

std::string encode(const StoreMessage &message) {
  std::string body(1, char(message.kind));
  addNumber(body, message.number);
  for (const std::string &field : message.fields) {
    addNumber(body, uint32_t(field.size()));
    body += field;
  }
  std::string text;
  addNumber(text, uint32_t(body.size()));
  return text + body;
}

std::optional<StoreMessage> StoreMessageReader::next(size_t most) {
  if (buffer.size() - used < lengthBytes)
    return std::nullopt;
  const size_t length = numberAt(buffer, used);
  if (length < headBytes || length > most)
    failMessage();
  size_t at = used + lengthBytes;
  const size_t end = at + length;
  if (buffer.size() < end)
    return std::nullopt;
  StoreMessage message;
  message.kind = StoreMessageKind(buffer[at]);
  message.number = numberAt(buffer, at + 1);
  at += headBytes;
  while (at < end) {
    if (end - at < lengthBytes)
      failMessage();
    const size_t bytes = numberAt(buffer, at);
    at += lengthBytes;
    if (bytes > end - at)
      failMessage();
    message.fields.push_back(buffer.substr(at, bytes));
    at += bytes;
  }
  used = end;
  if (used == buffer.size() || used > kMostUnproved) {
    buffer.erase(0, used);
    used = 0;
  }
  return message;
}

std::string clientProof(const std::string &secret,
                        const std::string &serversChallenge,
                        const std::string &clientsChallenge,
                        const std::string &member, const std::string &process) {
  return proofOf(secret, {kStoreName, "client", serversChallenge,
                          clientsChallenge, member, process});
}

std::string serverProof(const std::string &secret,
                        const std::string &serversChallenge,
                        const std::string &clientsChallenge) {
  return proofOf(secret,
                 {kStoreName, "server", serversChallenge, clientsChallenge});
}

} // namespace fcdp
