// SPDX-License-Identifier: Apache-2.0
//
// Writes files that exist completely or not at all.
#pragma once

#include "files/DurableFile.h"

#include <array>
#include <optional>
#include <stdexcept>
#include <string>

namespace fcdp {

/// Returns the name of a file until it is complete. It is in the same folder,
/// and no other job has it. A process and its forks get the same name.
std::string temporaryName(const std::string &path);

/// Returns the end of such names, and of other names that no other job may
/// have: a random number that is drawn at the process's first call.
const std::string &ownToken();

/// Returns whether a path exists and is neither a file nor a folder, such as a
/// device or a pipe. Such a path is written to directly.
bool isStream(const std::string &path);

/// Removes a temporary file, unless it is complete and only has not been
/// renamed. Returns whether it still exists.
bool removeIncomplete(const std::string &temporary);

/// An error of a complete file that could not be renamed.
class UnnamedFileError : public std::runtime_error {
public:
  using std::runtime_error::runtime_error;
};

/// Writes to temporaryName(path), which must not exist, and renames it in
/// `finish`, after the disk has all bytes. A link is followed to the file that
/// it names. Without `finish` the temporary file is removed. A stream is
/// written to directly. One thread may use it. Functions throw
/// std::runtime_error that names the file.
class ReplacedFile {
public:
  explicit ReplacedFile(const std::string &path);
  ~ReplacedFile();
  ReplacedFile(const ReplacedFile &) = delete;
  ReplacedFile &operator=(const ReplacedFile &) = delete;

  void write(std::span<const std::byte> bytes);
  /// Throws UnnamedFileError if only the renaming fails; the temporary file is
  /// kept then.
  void finish();

private:
  /// The first bytes of a file, which are zeros until it is complete.
  static constexpr size_t kMarkBytes = 8;
  friend bool removeIncomplete(const std::string &temporary);

  const std::string path;
  /// Empty for a stream.
  const std::string temporary;
  std::optional<DurableFile> file;
  std::array<std::byte, kMarkBytes> mark{};
  size_t written = 0;
};

} // namespace fcdp
