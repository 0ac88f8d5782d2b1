// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/CheckpointFolders.h"
#include "files/DurableFile.h"
#include "files/FileErrors.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <fcntl.h>
#include <filesystem>

namespace fcdp {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "step-";
constexpr std::string_view kPartial = ".partial";
constexpr std::string_view kRemoved = ".removed";
constexpr size_t kDigits = 8;
constexpr std::string_view kMark = ".fcdp-run";

/// Returns the step in "step-00000050", or none.
std::optional<int64_t> stepOf(std::string_view name) {
  if (!name.starts_with(kPrefix))
    return std::nullopt;
  name.remove_prefix(kPrefix.size());
  int64_t step = 0;
  auto [end, error] =
      std::from_chars(name.data(), name.data() + name.size(), step);
  if (error != std::errc() || end != name.data() + name.size() || step < 0 ||
      name.size() < kDigits)
    return std::nullopt;
  return step;
}

/// Returns the names of the folders in a folder.
std::vector<std::string> foldersIn(const std::string &path) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator at(path, error), end; !error && at != end;
       at.increment(error))
    if (std::error_code unknown; at->is_directory(unknown))
      names.push_back(at->path().filename().string());
  if (error)
    throwAt(path, "cannot be listed: " + error.message());
  return names;
}

/// Returns the last name of a path, also before a slash or a dot.
std::string lastName(const std::string &path) {
  fs::path folder = fs::absolute(path).lexically_normal();
  return (folder.has_filename() ? folder : folder.parent_path()).filename();
}

std::string markPath(const std::string &run) {
  return (fs::path(run) / kMark).string();
}

void removeFolder(const std::string &path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error)
    throwAt(path, "cannot be removed: " + error.message());
}

/// Returns whether this is a checkpoint's folder that was left while it was
/// written or removed.
bool isLeftover(std::string_view name) {
  for (std::string_view suffix : {kPartial, kRemoved})
    if (name.ends_with(suffix) &&
        stepOf(name.substr(0, name.size() - suffix.size())))
      return true;
  return false;
}

/// Returns the folders on the way to `path` that do not exist.
std::vector<fs::path> missingParents(const std::string &path) {
  std::vector<fs::path> parents;
  std::error_code error;
  for (fs::path at = fs::absolute(path).lexically_normal();
       at.has_relative_path() && !fs::exists(at, error); at = at.parent_path())
    parents.push_back(at.parent_path());
  return parents;
}

void checkFile(const std::string &path, uint64_t expected) {
  std::error_code error;
  uint64_t bytes = fs::file_size(path, error);
  if (error == std::errc::no_such_file_or_directory)
    throwAt(path,
            "expected the file that a rank wrote, got none; the folder for "
            "checkpoints must be shared by all nodes");
  if (error)
    throwAt(path, "cannot be examined: " + error.message());
  if (bytes != expected)
    throwAt(path, "expected " + std::to_string(expected) + " bytes, got " +
                      std::to_string(bytes));
}

} // namespace

std::vector<int64_t> listCheckpoints(const std::string &run) {
  std::vector<int64_t> steps;
  if (!fs::exists(run))
    return steps;
  for (const std::string &name : foldersIn(run))
    if (auto step = stepOf(name))
      steps.push_back(*step);
  std::sort(steps.begin(), steps.end());
  return steps;
}

std::string checkpointPath(const std::string &run, int64_t step) {
  char name[64];
  std::snprintf(name, sizeof(name), "step-%08lld",
                static_cast<long long>(step));
  return (fs::path(run) / name).string();
}

std::optional<int64_t> stepOfCheckpoint(const std::string &path) {
  return stepOf(lastName(path));
}

bool isOfCheckpoint(std::string_view name) {
  return stepOf(name) || isLeftover(name);
}

bool isOfRun(std::string_view name) {
  return isOfCheckpoint(name) || name == kMark || name == kRunLockName;
}

bool isCheckpoint(const std::string &folder) {
  std::error_code error;
  if (!fs::exists(fs::path(folder) / kIndexName, error))
    return false;
  for (fs::directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error))
    if (at->path().filename().string().starts_with("rank-"))
      return true;
  return false;
}

std::string partialPath(const std::string &run, int64_t step) {
  return checkpointPath(run, step).append(kPartial);
}

std::optional<std::string> findCheckpoint(const std::string &path) {
  if (!fs::exists(path))
    return std::nullopt;
  if (!fs::is_directory(path))
    throwAt(path,
            "expected a checkpoint, or a folder of checkpoints, got a file");
  if (isLeftover(lastName(path)))
    throwAt(path, "is not a complete checkpoint");
  if (fs::exists(fs::path(path) / kIndexName))
    return path;
  std::vector<int64_t> steps = listCheckpoints(path);
  if (steps.empty())
    return std::nullopt;
  return checkpointPath(path, steps.back());
}

void makeFolder(const std::string &run) {
  std::error_code error;
  std::vector<fs::path> parents = missingParents(run);
  fs::create_directories(run, error);
  if (error)
    throwAt(run, "cannot be made: " + error.message());
  for (const fs::path &parent : parents)
    syncFolder(parent.string());
}

void makeRunFolder(const std::string &run) {
  makeFolder(run);
  DurableFile(markPath(run), run).finish();
}

void checkRunFolder(const std::string &run) {
  if (!fs::exists(markPath(run)))
    throwAt(run,
            "rank 0 has made a file in this folder that this rank does not "
            "see; the folder for checkpoints must be shared by all nodes");
}

void removeRunMark(const std::string &run) {
  std::error_code ignored; // it does no harm
  fs::remove(markPath(run), ignored);
}

void beginCheckpoint(const std::string &run, int64_t step) {
  std::string path = partialPath(run, step);
  if (fs::exists(path))
    removeFolder(path);
  std::error_code error;
  for (const std::string &name : foldersIn(run))
    if (isLeftover(name))
      fs::remove_all(fs::path(run) / name, error);
  fs::create_directory(path, error);
  if (error)
    throwAt(path, "cannot be made: " + error.message());
}

/// Renames a folder. An existing one of that name is replaced at once, if the
/// file system can, because it stays valid until then.
static void replaceFolder(const std::string &from, const std::string &to) {
  if (!fs::exists(to))
    return renameDurably(from, to);
  if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(),
                RENAME_EXCHANGE) == 0) {
    syncFolder(fs::absolute(to).parent_path().string());
    return removeFolder(from);
  }
  const std::string removed = to + std::string(kRemoved);
  if (fs::exists(removed))
    removeFolder(removed);
  renameDurably(to, removed);
  renameDurably(from, to);
  removeFolder(removed);
}

void commitCheckpoint(const std::string &run, const CheckpointIndex &index) {
  fs::path partial = partialPath(run, index.step);
  for (const CheckpointFile &file : index.files)
    checkFile((partial / file.name).string(), file.bytes);
  std::string path = (partial / kIndexName).string(), text = index.toJson();
  DurableFile file(path, path);
  file.write(std::as_bytes(std::span(text)));
  file.finish();
  syncFolder(partial.string());
  replaceFolder(partial.string(), checkpointPath(run, index.step));
}

void pruneCheckpoints(const std::string &run, size_t keep,
                      std::optional<int64_t> best) {
  std::vector<int64_t> steps = listCheckpoints(run);
  for (size_t i = 0; i + keep < steps.size(); ++i) {
    if (steps[i] == best)
      continue;
    std::string path = checkpointPath(run, steps[i]);
    std::string removed = path;
    removed.append(kRemoved);
    renameDurably(path, removed);
    removeFolder(removed);
  }
}

} // namespace fcdp
