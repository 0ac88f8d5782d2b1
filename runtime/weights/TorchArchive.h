// SPDX-License-Identifier: Apache-2.0
//
// Reads records of an archive that PyTorch wrote. libtorch locates the records.
// This class verifies checksums, which libtorch does not, and leaves the
// content in the mapped file, where libtorch would copy it.
#pragma once

#include "files/MappedFile.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace caffe2::serialize {
class PyTorchStreamReader;
}

namespace fcdp {

/// One thread at a time may use it. Functions throw std::runtime_error that
/// names the file. Record names are relative to the archive's folder.
class TorchArchive {
public:
  explicit TorchArchive(const std::string &path);
  ~TorchArchive();

  const std::string &path() const { return filePath; }
  std::vector<std::string> records();
  /// Returns the content of a record after checking it, or none if there is no
  /// such record. The content is in the mapped file.
  std::optional<std::span<const std::byte>> read(const std::string &name);
  std::optional<std::string> readText(const std::string &name);
  /// Releases the pages that were read from the process's memory.
  void dropPages() const { file->dropPages(); }
  /// Keeps the content of records alive.
  std::shared_ptr<const MappedFile> owner() const { return file; }

private:
  /// Returns bytes of the file. Throws if they are not all inside it.
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
