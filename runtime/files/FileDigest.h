// SPDX-License-Identifier: Apache-2.0
//
// Detects differences between files that should be the same on all nodes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace fcdp {

/// The largest file of which a sampled digest covers all bytes.
inline constexpr uint64_t kMostWholeBytes = uint64_t(16) << 20;

/// A file, or files of a folder, whose contents are compared. Functions throw
/// std::runtime_error that names the file. Immutable.
class FileSet {
public:
  /// Takes a file, or the safetensors files of a folder and their index.
  explicit FileSet(const std::string &path);
  /// Takes the files `names` of a folder.
  FileSet(const std::string &folder, std::vector<std::string> names);

  /// Returns a short text that identifies the files. It differs between
  /// different files, and after a change of the same files. It is equal for two
  /// processes that read the same files of one running system. Its length does
  /// not grow with the number of files, because all ranks exchange it.
  std::string identity() const;
  /// Returns, for example, "131072 bytes" or "3 files, 131072 bytes".
  std::string describe() const;

  /// Returns the checksum of a part of the contents. The sum of all parts'
  /// checksums, modulo 2^64, depends on the contents, the sizes and the names
  /// in a folder, but not on the number of parts. It covers all bytes if there
  /// are at most `mostBytes`. Otherwise, of each file of more than
  /// kMostWholeBytes, it covers the first and the last 256 KiB, where formats
  /// have their headers and tables of contents, and 64 blocks of 16 KiB at
  /// equal distances between them.
  uint64_t sumOfPart(uint32_t part, uint32_t parts, uint64_t mostBytes) const;

private:
  struct File {
    std::string name; ///< in the folder, or ""
    std::string path;
    uint64_t bytes;
  };
  void add(const std::string &name, const std::string &path);
  uint64_t totalBytes() const;

  bool isFolder;
  std::vector<File> files;
  std::string identityText;
};

/// Returns the digits of a checksum.
std::string toDigits(uint64_t checksum);

} // namespace fcdp
