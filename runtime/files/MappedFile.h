// SPDX-License-Identifier: Apache-2.0
//
// A read-only mapping of a file.
#pragma once

#include "core/FileDescriptor.h"

#include <cstddef>
#include <span>
#include <string>

namespace fcdp {

/// Owns the mapping. Neither copyable nor movable; immutable and therefore
/// thread-safe.
///
/// If the file shrinks while it is mapped, the lost bytes read as zeros, and
/// `requireWhole` throws. For that, a handler of SIGBUS is installed while such
/// files exist. It passes signals of other memory to the previous handler.
class MappedFile {
public:
  /// Throws std::runtime_error that names the file.
  explicit MappedFile(const std::string &path);
  ~MappedFile();
  MappedFile(const MappedFile &) = delete;
  MappedFile &operator=(const MappedFile &) = delete;

  std::span<const std::byte> bytes() const { return content; }
  /// Throws std::runtime_error if the file has shrunk. Call it after the file's
  /// bytes were read, and before they are used.
  void requireWhole() const;
  /// Releases the pages that were read from the process's memory.
  void dropPages() const;

private:
  const std::string path;
  FileDescriptor file;
  std::span<const std::byte> content;
  /// The entry by which the handler of SIGBUS finds the mapping.
  struct GuardedRange *guarded = nullptr;
};

} // namespace fcdp
