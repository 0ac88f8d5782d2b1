// SPDX-License-Identifier: Apache-2.0
//
// Files that are damaged in every way of a kind.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

namespace fcdp::test {

inline std::string readFile(const std::string &path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline void writeFile(const std::string &path, const std::string &content) {
  // Disks write at once what takes another file's place.
  std::filesystem::remove(path);
  std::ofstream(path, std::ios::binary) << content;
}

/// Calls `check` with each length that the file is cut off at.
template <typename Check>
void forEachTruncation(const std::string &path, Check check) {
  std::string whole = readFile(path);
  for (size_t length = 0; length < whole.size(); ++length) {
    writeFile(path, whole.substr(0, length));
    check(length);
  }
}

/// Calls `check` with the place of each byte, that byte being wrong.
template <typename Check>
void forEachWrongByte(const std::string &path, Check check) {
  std::string whole = readFile(path);
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] ^= '\xff';
    writeFile(path, damaged);
    check(at);
  }
}

} // namespace fcdp::test
