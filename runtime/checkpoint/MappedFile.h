// SPDX-License-Identifier: Apache-2.0
//
// A read-only mapping of a file.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace fcdp {

/// Owns the mapping. Neither copyable nor movable; immutable and therefore
/// thread-safe. If the file shrinks while it is mapped, a read may end the
/// process by a signal.
class MappedFile {
public:
  /// Throws std::runtime_error that names the file.
  explicit MappedFile(const std::string &path);
  ~MappedFile();
  MappedFile(const MappedFile &) = delete;
  MappedFile &operator=(const MappedFile &) = delete;

  std::span<const std::byte> bytes() const { return content; }
  /// Takes the pages that were read out of the process's memory.
  void dropPages() const;

private:
  std::span<const std::byte> content;
};

} // namespace fcdp
