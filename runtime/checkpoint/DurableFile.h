// SPDX-License-Identifier: Apache-2.0
//
// Files and folders that are on the disk when a function says so.
#pragma once

#include "core/FileDescriptor.h"

#include <cstddef>
#include <span>
#include <string>

namespace fcdp {

/// A new file. Used by one thread. Functions throw std::runtime_error that
/// names the file.
class DurableFile {
public:
  /// Creates the file, or empties it. Messages call it `shownAs`.
  DurableFile(const std::string &path, const std::string &shownAs);

  /// Creates a file that must not be there, not even as a link.
  static DurableFile create(const std::string &path,
                            const std::string &shownAs);
  /// Opens what is no regular file, as a device or a pipe.
  static DurableFile openStream(const std::string &path);

  void write(std::span<const std::byte> bytes);
  /// Replaces bytes that were written.
  void writeAt(size_t offset, std::span<const std::byte> bytes);
  /// Waits until the disk has all bytes.
  void sync();
  /// Waits until the disk has all bytes, and closes the file.
  void finish();

private:
  DurableFile(int file, const std::string &shownAs);

  std::string shownAs;
  FileDescriptor file;
};

/// Waits until the disk has the names in a folder.
void syncFolder(const std::string &path);

/// Renames a file or folder within a folder, and waits until the disk has the
/// new name.
void renameDurably(const std::string &from, const std::string &to);

} // namespace fcdp
