// SPDX-License-Identifier: Apache-2.0
//
// A small checkpoint of two ranks, whose values follow from its step.
#pragma once

#include "checkpoint/CheckpointFolders.h"
#include "checkpoint/CheckpointReader.h"

#include <optional>
#include <string>
#include <vector>

namespace fcdp::test {

/// A parameter `w` [2, 3], four elements on rank 0 and two on rank 1, and a
/// buffer `b` [2] of each rank.
CheckpointIndex sampleIndex(int64_t step);

/// Saves it as the ranks of a job do, and keeps `keep` checkpoints.
void saveSample(const std::string &run, int64_t step,
                std::optional<size_t> keep = std::nullopt);

/// Reads all of a checkpoint; throws std::runtime_error unless the values are
/// those of the step that it names. Returns the step.
int64_t readSample(const std::string &path);

} // namespace fcdp::test
