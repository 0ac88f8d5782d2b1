// SPDX-License-Identifier: Apache-2.0
//
// Writes files and folders, with functions that wait until they are on the
// disk.
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
  /// Creates the file, or empties it. Messages use the name `shownAs`.
  DurableFile(const std::string &path, const std::string &shownAs);

  /// Creates a file. Throws if the path already exists, even as a link.
  static DurableFile create(const std::string &path,
                            const std::string &shownAs);
  /// Opens a path that is not a regular file, such as a device or a pipe.
  static DurableFile openStream(const std::string &path);

  void write(std::span<const std::byte> bytes);
  /// Replaces bytes that were written before.
  void writeAt(size_t offset, std::span<const std::byte> bytes);
  /// Returns after the disk has all bytes.
  void sync();
  /// Closes the file after the disk has all bytes.
  void finish();

private:
  DurableFile(int file, const std::string &shownAs);

  std::string shownAs;
  FileDescriptor file;
};

/// Returns after the disk has the names in a folder.
void syncFolder(const std::string &path);

/// Renames a file or folder within a folder, and returns after the disk has the
/// new name.
void renameDurably(const std::string &from, const std::string &to);

} // namespace fcdp
