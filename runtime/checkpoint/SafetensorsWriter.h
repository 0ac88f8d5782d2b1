// SPDX-License-Identifier: Apache-2.0
//
// Writes a safetensors file piece by piece.
#pragma once

#include "plan/Manifest.h"

#include <fstream>
#include <span>
#include <string>

namespace fcdp {

/// Writes to a file beside `path` and renames it at the end, so that `path` is
/// never half-written; without `finish` nothing stays. Used by one thread.
/// Functions throw std::runtime_error that names the file.
class SafetensorsWriter {
public:
  struct Entry {
    /// All names. The first names the data, the others are noted in the
    /// metadata, as safetensors' own save_model does.
    std::vector<std::string> names;
    Shape shape;
    DType dtype;
  };

  /// The data of the entries is expected in their order.
  SafetensorsWriter(const std::string &path, const std::vector<Entry> &entries);
  ~SafetensorsWriter();
  SafetensorsWriter(const SafetensorsWriter &) = delete;
  SafetensorsWriter &operator=(const SafetensorsWriter &) = delete;

  void write(std::span<const std::byte> bytes);
  /// All data must have been written.
  void finish();

private:
  void check(const char *doing) const;

  std::string path, temporary;
  std::ofstream file;
  uint64_t expected = 0, written = 0;
  bool isFinished = false;
};

} // namespace fcdp
