// SPDX-License-Identifier: Apache-2.0
//
// Writes a safetensors file incrementally.
#pragma once

#include "files/ReplacedFile.h"
#include "plan/StepPlan.h"

#include <span>
#include <string>
#include <utility>
#include <vector>

namespace fcdp {

/// Writes a ReplacedFile, so that `path` is never incomplete. One thread may
/// use it. Functions throw std::runtime_error that names the file.
class SafetensorsWriter {
public:
  struct Entry {
    /// All names. The first one names the data; the others go into the
    /// metadata, as in safetensors' save_model.
    std::vector<std::string> names;
    Shape shape;
    DType dtype;
  };

  /// Texts of the metadata with their keys, which must not be names of tensors.
  using Metadata = std::vector<std::pair<std::string, std::string>>;

  /// The data of the entries must be written in their order.
  SafetensorsWriter(const std::string &path, const std::vector<Entry> &entries,
                    const Metadata &metadata = {});

  void write(std::span<const std::byte> bytes);
  /// Completes the file. All data must have been written.
  void finish();

  /// Returns the beginning of the file: the header, preceded by its size.
  const std::string &header() const { return start; }

  /// Returns the size in bytes of a file with these entries.
  static uint64_t fileBytes(const std::vector<Entry> &entries,
                            const Metadata &metadata = {});

private:
  std::string path, start;
  ReplacedFile file;
  uint64_t expected = 0, written = 0;
};

} // namespace fcdp
