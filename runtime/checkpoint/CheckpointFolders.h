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

/// Functions throw std::runtime_error that names the file or folder. A process
/// at a time writes to a run.

/// The steps of the complete checkpoints of a run, in ascending order; none if
/// the folder does not exist.
std::vector<int64_t> listCheckpoints(const std::string &run);
/// "RUN/step-00000050"
std::string checkpointPath(const std::string &run, int64_t step);
/// Returns the step that the name of a checkpoint's folder says, or none if it
/// has another name.
std::optional<int64_t> stepOfCheckpoint(const std::string &path);
/// Whether a folder of this name has a checkpoint of a run: a complete one, or
/// one that is being written or removed.
bool isOfCheckpoint(std::string_view name);
/// Whether a folder of checkpoints has, or gets, such a file or folder of its
/// own.
bool isOfRun(std::string_view name);
/// Whether the folder has the index and a rank's file of a checkpoint.
bool isCheckpoint(const std::string &folder);
/// The folder in which that checkpoint is written.
std::string partialPath(const std::string &run, int64_t step);

/// Returns the checkpoint that `path` is or, if it is the folder of a run, the
/// run's latest one; none if it has none, or if there is no such folder.
std::optional<std::string> findCheckpoint(const std::string &path);

/// Makes the folder of a run unless it is there.
void makeFolder(const std::string &run);
/// Makes the folder, and a file in it by which other nodes can tell that they
/// see the same folder.
void makeRunFolder(const std::string &run);
/// Throws unless that file is there.
void checkRunFolder(const std::string &run);
void removeRunMark(const std::string &run);

/// Makes the folder in which the checkpoint of a step is written. Removes what
/// crashes and removals have left, where that is possible.
void beginCheckpoint(const std::string &run, int64_t step);

/// Completes a checkpoint when all files of the index are written.
void commitCheckpoint(const std::string &run, const CheckpointIndex &index);

/// Removes all but the `keep` latest checkpoints and that of step `best`.
void pruneCheckpoints(const std::string &run, size_t keep,
                      std::optional<int64_t> best = std::nullopt);

} // namespace fcdp
