// SPDX-License-Identifier: Apache-2.0
//
// Files that exist completely or not at all.
#pragma once

#include "checkpoint/DurableFile.h"

#include <array>
#include <optional>
#include <stdexcept>
#include <string>

namespace fcdp {

/// The name that a file has until it is complete: in the same folder, and known
/// to no other job. The same in a process and in those that it forks.
std::string temporaryName(const std::string &path);

/// The end of such names, and of others that no other job may have: a number
/// that was drawn when the process first asked for it.
const std::string &ownToken();

/// Whether a path is there and is neither a file nor a folder, as a device or a
/// pipe. It is written to as it is.
bool isStream(const std::string &path);

/// Removes a temporary file, unless it is complete and only lacks its name.
/// Returns whether it is there afterwards.
bool removeIncomplete(const std::string &temporary);

/// A file is complete, but could not get its name.
class UnnamedFileError : public std::runtime_error {
public:
  using std::runtime_error::runtime_error;
};

/// Writes to temporaryName(path), which must not be there, and renames that in
/// `finish`, when the disk has all of it. A link is followed to the file that
/// it names. Without `finish` the temporary file is removed. A stream is
/// written to as it is. One thread may use it. Functions throw
/// std::runtime_error that names the file.
class ReplacedFile {
public:
  explicit ReplacedFile(const std::string &path);
  ~ReplacedFile();
  ReplacedFile(const ReplacedFile &) = delete;
  ReplacedFile &operator=(const ReplacedFile &) = delete;

  void write(std::span<const std::byte> bytes);
  /// Throws UnnamedFileError if only the new name is missing; the temporary
  /// file stays then.
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
