// SPDX-License-Identifier: Apache-2.0
//
// Reads records of an archive that PyTorch wrote. libtorch says where they
// are; they stay in the mapped file, of which libtorch would make copies, and
// their checksums are compared, which libtorch leaves out.
#pragma once

#include "checkpoint/MappedFile.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace caffe2::serialize {
class PyTorchStreamReader;
}

namespace fcdp {

/// Used by one thread at a time. Functions throw std::runtime_error that names
/// the file. Names of records are relative to the archive's folder.
class TorchArchive {
public:
  explicit TorchArchive(const std::string &path);
  ~TorchArchive();

  const std::string &path() const { return filePath; }
  std::vector<std::string> records();
  /// The content of a record, checked; none if there is no such record. It lies
  /// in the mapped file.
  std::optional<std::span<const std::byte>> read(const std::string &name);
  std::optional<std::string> readText(const std::string &name);
  /// What keeps the content of records alive.
  std::shared_ptr<const void> owner() const { return file; }

private:
  /// Throws if they do not all lie in the file.
  std::span<const std::byte> part(uint64_t offset, uint64_t count) const;
  template <typename T>
  T number(uint64_t offset) const;
  std::span<const std::byte> contentOf(const std::string &name);
  uint32_t checksumOf(uint64_t header, uint64_t end) const;

  std::string filePath;
  std::shared_ptr<const MappedFile> file;
  std::unique_ptr<caffe2::serialize::PyTorchStreamReader> reader;
};

} // namespace fcdp
