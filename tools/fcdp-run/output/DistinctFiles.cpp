// SPDX-License-Identifier: Apache-2.0
#include "output/DistinctFiles.h"

#include "checkpoint/CheckpointFolders.h"
#include "files/ReplacedFile.h"

#include <filesystem>
#include <optional>
#include <stdexcept>
#include <sys/stat.h>
#include <utility>

namespace fcdp::run {

namespace fs = std::filesystem;

namespace {

bool isExistingFolder(const fs::path &path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

/// Returns the path without links and dots, as far as it exists.
fs::path resolve(const fs::path &path) {
  std::error_code error;
  fs::path real = fs::weakly_canonical(fs::absolute(path, error), error);
  if (error)
    real = fs::absolute(path, error).lexically_normal();
  return real.has_filename() ? real : real.parent_path(); // after a slash
}

/// Identifies a file by its inode, under any of its names.
using FileId = std::pair<dev_t, ino_t>;

std::optional<FileId> idOf(const fs::path &path) {
  struct stat status;
  if (stat(path.c_str(), &status) != 0)
    return std::nullopt;
  return FileId(status.st_dev, status.st_ino);
}

/// An output, with the properties that are compared.
struct Output {
  explicit Output(const NamedFile &file)
      : file(file), path(resolve(file.path)), id(idOf(file.path)),
        isFolder(file.mayBeFolder &&
                 (file.path.ends_with('/') || isExistingFolder(file.path))),
        folder(isFolder ? path : path.parent_path()) {}

  const NamedFile &file;
  fs::path path;
  std::optional<FileId> id;
  bool isFolder;
  /// The folder in which files are made.
  fs::path folder;
};

[[noreturn]] void refuse(const Output &output, const std::string &expected,
                         const std::string &found) {
  throw std::runtime_error(output.file.option + " " + output.file.path +
                           ": expected " + expected + ", got " + found);
}

/// Returns whether both paths name one file, which may not exist yet.
bool isSameFile(const Output &output, const NamedFile &other) {
  if (isStream(output.file.path) || isStream(other.path))
    return false;
  const std::optional<FileId> id = idOf(other.path);
  return (id && id == output.id) || output.path == resolve(other.path);
}

/// Returns whether one of a folder's files is the output, by another name.
bool hasFile(const fs::path &folder, const Output &output) {
  if (!output.id)
    return false;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error))
    if (idOf(at->path()) == output.id)
      return true;
  return false;
}

/// Returns the folders of a run that have checkpoints, complete or not.
std::vector<fs::path> checkpointsIn(const fs::path &run) {
  std::vector<fs::path> folders;
  std::error_code error;
  for (fs::directory_iterator at(run, error), end; !error && at != end;
       at.increment(error))
    if (isOfCheckpoint(at->path().filename().string()) &&
        isExistingFolder(at->path()))
      folders.push_back(at->path());
  return folders;
}

/// Returns whether checkpoints are in the folder, which need not exist yet.
bool isRun(const NamedFile &input) {
  std::error_code error;
  return input.mayBeFolder ||
         (!fs::exists(fs::path(input.path) / kIndexName, error) &&
          !checkpointsIn(input.path).empty());
}

[[noreturn]] void refuseInside(const Output &output, const NamedFile &input) {
  refuse(output, "a place of its own",
         "one in " + input.path + ", which " + input.option + " names");
}

void checkRun(const Output &output, const NamedFile &input) {
  const fs::path run = resolve(input.path);
  const fs::path relative = output.path.lexically_relative(run);
  if (!relative.empty() && isOfRun(relative.begin()->string()))
    refuseInside(output, input);
  for (const fs::path &checkpoint : checkpointsIn(run))
    if (hasFile(checkpoint, output))
      refuseInside(output, input);
}

void checkFolder(const Output &output, const NamedFile &input) {
  const fs::path folder = resolve(input.path);
  if (output.folder == folder || hasFile(folder, output))
    refuseInside(output, input);
}

void checkNoCheckpoint(const Output &output) {
  if (!isStream(output.file.path) && isCheckpoint(output.folder.string()))
    refuse(output, "a place outside of checkpoints",
           "one in the checkpoint " + output.folder.string());
}

} // namespace

void checkDistinct(const std::vector<NamedFile> &outputs,
                   const std::vector<NamedFile> &inputs) {
  std::vector<Output> all(outputs.begin(), outputs.end());
  for (size_t i = 0; i < all.size(); ++i) {
    auto compare = [&](const NamedFile &other) {
      if (isSameFile(all[i], other))
        refuse(all[i], "a file of its own", "the one of " + other.option);
    };
    for (size_t j = 0; j < i; ++j)
      compare(outputs[j]);
    for (const NamedFile &input : inputs) {
      const bool ofRun = isRun(input);
      // Other folders may be made in the folder of a run.
      if (!ofRun || !all[i].isFolder)
        compare(input);
      if (ofRun)
        checkRun(all[i], input);
      else if (isExistingFolder(input.path))
        checkFolder(all[i], input);
    }
    checkNoCheckpoint(all[i]);
  }
}

} // namespace fcdp::run
