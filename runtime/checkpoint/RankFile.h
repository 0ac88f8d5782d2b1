// SPDX-License-Identifier: Apache-2.0
//
// The file of one rank in a checkpoint, with the digests of its contents.
#pragma once

#include "weights/SafetensorsWriter.h"
#include "weights/WeightSource.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace fcdp {

/// Functions throw std::runtime_error that names the file.

/// Returns the size in bytes of a file with these entries.
uint64_t rankFileBytes(const std::vector<SafetensorsWriter::Entry> &entries);

/// Writes a rank's file, with the data of all entries in their order. Returns
/// the digest of its header, which contains the digests of the data.
std::string writeRankFile(const std::string &path,
                          const std::vector<SafetensorsWriter::Entry> &entries,
                          std::span<const std::byte> data);

/// Reads a rank's file. Each block of data is compared with its digest before
/// it is first used. Used by one thread.
class RankFile {
public:
  /// `digest` is the header's digest; none for a checkpoint that was saved
  /// without digests.
  RankFile(const std::string &path, const std::optional<std::string> &digest);

  /// Copies the elements [first, first + count) of a tensor of one dimension,
  /// which must have this name, length and type.
  void read(const std::string &name, int64_t length, DType dtype, int64_t first,
            int64_t count, std::byte *target);

private:
  void checkHeader(const std::string &digest);
  void verify(std::span<const std::byte> range);

  const std::string path;
  const std::shared_ptr<const MappedFile> file;
  std::unique_ptr<WeightSource> source;
  std::span<const std::byte> data;
  /// The digests of the blocks of `data`; empty without digests.
  std::string digests;
  std::vector<bool> isVerified; ///< by block
};

} // namespace fcdp
