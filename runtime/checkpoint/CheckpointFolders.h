// SPDX-License-Identifier: Apache-2.0
//
// The folders of a run's checkpoints. A checkpoint is written in a folder
// `step-N.partial`, which is renamed to `step-N` when all of it is on the disk.
#pragma once

#include "checkpoint/CheckpointIndex.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fcdp {

inline constexpr const char *kIndexName = "index.json";
inline constexpr const char *kRunLockName = ".lock";

/// Functions throw std::runtime_error that names the file or folder. Only one
/// process at a time writes to a run.

/// Returns the steps of the complete checkpoints of a run, in ascending order;
/// none if the folder does not exist.
std::vector<int64_t> listCheckpoints(const std::string &run);
/// Returns, for example, "RUN/step-00000050".
std::string checkpointPath(const std::string &run, int64_t step);
/// Returns the step in the name of a checkpoint's folder, or none if it has
/// another name.
std::optional<int64_t> stepOfCheckpoint(const std::string &path);
/// Returns whether a folder of this name has a checkpoint of a run: a complete
/// one, or one that is being written or removed.
bool isOfCheckpoint(std::string_view name);
/// Returns whether a run has, or makes, a file or folder of this name in its
/// folder.
bool isOfRun(std::string_view name);
/// Returns whether the folder has the index and a rank's file of a checkpoint.
bool isCheckpoint(const std::string &folder);
/// Returns the folder in which that checkpoint is written.
std::string partialPath(const std::string &run, int64_t step);

/// Returns `path` if it is a checkpoint, or the run's latest checkpoint if it
/// is the folder of a run. Returns none if there is no checkpoint or no such
/// folder.
std::optional<std::string> findCheckpoint(const std::string &path);

/// Creates the folder of a run unless it exists.
void makeFolder(const std::string &run);
/// Creates the folder, and a file in it that shows other nodes that they see
/// the same folder.
void makeRunFolder(const std::string &run);
/// Throws unless the file of makeRunFolder exists.
void checkRunFolder(const std::string &run);
void removeRunMark(const std::string &run);

/// Creates the folder in which the checkpoint of a step is written. Removes
/// what crashes and interrupted removals have left, as far as possible.
void beginCheckpoint(const std::string &run, int64_t step);

/// Completes a checkpoint after all files of the index are written.
void commitCheckpoint(const std::string &run, const CheckpointIndex &index);

/// Removes all checkpoints except for the `keep` latest ones and the one of
/// step `best`.
void pruneCheckpoints(const std::string &run, size_t keep,
                      std::optional<int64_t> best = std::nullopt);

} // namespace fcdp
