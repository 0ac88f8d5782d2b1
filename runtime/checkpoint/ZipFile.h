// SPDX-License-Identifier: Apache-2.0
//
// Reads entries of a zip file that stores them as they are, which is how
// PyTorch writes archives, with their checksums. No library is needed for it
// on the machines that train.
#pragma once

#include "checkpoint/MappedFile.h"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace fcdp {

/// Immutable once made, hence thread-safe. Functions throw std::runtime_error
/// that names the file.
class ZipFile {
public:
  explicit ZipFile(const std::string &path);

  const std::string &path() const { return filePath; }
  /// The name of the first entry, in alphabetical order, that ends so.
  std::optional<std::string> findEnding(std::string_view ending) const;
  /// The content of an entry, checked; none if there is no such entry. It lies
  /// in the mapped file.
  std::optional<std::span<const std::byte>> read(const std::string &name) const;
  std::optional<std::string> readText(const std::string &name) const;
  /// What keeps the content of entries alive.
  std::shared_ptr<const void> owner() const { return file; }

private:
  /// What the directory says of an entry; sizes in bytes.
  struct Entry {
    uint64_t header;
    uint64_t size, storedSize;
    uint32_t checksum;
    uint16_t method;
    bool isEncrypted;
  };
  [[noreturn]] void fail(const std::string &message) const;
  void readDirectory();
  std::span<const std::byte> contentOf(const Entry &entry) const;

  std::string filePath;
  std::shared_ptr<const MappedFile> file;
  std::map<std::string, Entry, std::less<>> entries;
};

} // namespace fcdp
