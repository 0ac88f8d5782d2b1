// SPDX-License-Identifier: Apache-2.0
//
// The files that rank 0 makes. They are checked before the first step, belong
// to one job, and are written to another folder if they cannot be written to
// their own.
#pragma once

#include "files/FileLock.h"
#include "output/DistinctFiles.h"

#include <memory>
#include <string>
#include <vector>

namespace fcdp::run {

/// The message for a file that another job uses, and the time to wait for that
/// job, which may be ending.
inline constexpr const char *kBusyOutput =
    "another job writes this file; name another one, or end that job first";
inline constexpr std::chrono::seconds kOutputPatience(3);

/// The output files of a job. Used by one thread.
class OutputFiles {
public:
  /// Some of the files may be folders: paths that end with a slash, or that
  /// exist as folders.
  explicit OutputFiles(std::vector<NamedFile> files);

  /// Checks that each file can be made, and locks it against other jobs. Throws
  /// std::runtime_error that names the option.
  void open();
  /// Releases the locks, and removes incomplete files. Returns a sentence for
  /// each file that is complete under another name.
  std::vector<std::string> close();
  /// Does the same at the end of a job that has failed, and prints the
  /// sentences.
  void cleanUp();

private:
  std::vector<NamedFile> files;
  std::vector<std::unique_ptr<FileLock>> locks;
};

/// Throws std::runtime_error that names `option` if the disk has less than
/// `bytes` free for a file or folder.
void checkSpace(const std::string &option, const std::string &path,
                uint64_t bytes);

/// Writes a whole file. Throws std::runtime_error that names `option`.
void writeWhole(const std::string &option, const std::string &path,
                const std::string &text);

/// Returns the folders for files that cannot be written to their own paths.
std::vector<std::string> foldersElsewhere();

/// Writes `text` to one of these folders, under a name that ends with `end`,
/// and returns "PROBLEM; WHAT is in PATH instead". Throws std::runtime_error
/// that contains `problem` if it cannot be written anywhere.
std::string keepElsewhere(const std::string &problem, const std::string &what,
                          const std::string &end, const std::string &text);

} // namespace fcdp::run
