// SPDX-License-Identifier: Apache-2.0
//
// A file mapped for reading.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace fcdp {

/// Owns the mapping; neither copied nor moved. Immutable, hence thread-safe.
/// A file that is made shorter while it is mapped ends the process by a signal.
class MappedFile {
public:
  /// Throws std::runtime_error that names the file.
  explicit MappedFile(const std::string &path);
  ~MappedFile();
  MappedFile(const MappedFile &) = delete;
  MappedFile &operator=(const MappedFile &) = delete;

  std::span<const std::byte> bytes() const { return content; }

private:
  std::span<const std::byte> content;
};

} // namespace fcdp
