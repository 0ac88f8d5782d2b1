// SPDX-License-Identifier: Apache-2.0
//
// The files that rank 0 makes: they are looked at before the first step, belong
// to one job, and are kept elsewhere if they cannot be where they should.
#pragma once

#include "checkpoint/FileLock.h"
#include "output/DistinctFiles.h"

#include <memory>
#include <string>
#include <vector>

namespace fcdp::run {

/// What a job says of a file that another one has, and how long it waits for
/// that job, which may be ending.
inline constexpr const char *kBusyOutput =
    "another job writes this file; name another one, or end that job first";
inline constexpr std::chrono::seconds kOutputPatience(3);

/// The output files of a job. Used by one thread.
class OutputFiles {
public:
  /// Some of them may be folders, which end with a slash or are there.
  explicit OutputFiles(std::vector<NamedFile> files);

  /// Checks that each can be made, and keeps other jobs from it. Throws
  /// std::runtime_error that names the option.
  void open();
  /// Lets other jobs have them, and removes what is not complete. Returns a
  /// sentence for each file that is complete under another name.
  std::vector<std::string> close();
  /// The same at the end of a job that has failed: prints the sentences.
  void cleanUp();

private:
  std::vector<NamedFile> files;
  std::vector<std::unique_ptr<FileLock>> locks;
};

/// Throws std::runtime_error, which names `option`, if the disk has less than
/// `bytes` left for a file or folder.
void checkSpace(const std::string &option, const std::string &path,
                uint64_t bytes);

/// Writes a whole file. Throws std::runtime_error, which names `option`.
void writeWhole(const std::string &option, const std::string &path,
                const std::string &text);

/// Folders for what cannot be written where it should be.
std::vector<std::string> foldersElsewhere();

/// Writes `text` to a folder for such files, under a name that ends with `end`,
/// and returns "PROBLEM; WHAT is in PATH instead". Throws std::runtime_error
/// that has `problem` if it cannot be written anywhere.
std::string keepElsewhere(const std::string &problem, const std::string &what,
                          const std::string &end, const std::string &text);

} // namespace fcdp::run
