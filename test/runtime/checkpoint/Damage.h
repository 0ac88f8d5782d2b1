// SPDX-License-Identifier: Apache-2.0
//
// Makes files with every damage of a kind.
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
  // Some disks write at once if a file replaces another one, so remove it
  // first.
  std::filesystem::remove(path);
  std::ofstream(path, std::ios::binary) << content;
}

/// Calls `check` for each length to which the file is truncated.
template <typename Check>
void forEachTruncation(const std::string &path, Check check) {
  std::string whole = readFile(path);
  for (size_t length = 0; length < whole.size(); ++length) {
    writeFile(path, whole.substr(0, length));
    check(length);
  }
}

/// Calls `check` with the offset of each byte while that byte is wrong.
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
