// SPDX-License-Identifier: Apache-2.0
//
// The figures of a step as text.
#pragma once

#include "session/CheckpointOptions.h"
#include "session/StepStats.h"

#include <optional>
#include <string>

namespace fcdp::run {

/// The line for people. `epoch` counts from 1; none if the data has no end.
std::string toLine(const StepStats &stats, std::optional<int64_t> epoch);
/// "epoch 1 ends: all 48 rows have been read"
std::string describeEpoch(int64_t epoch, int64_t rows);
/// "saving to RUN  copies take 12.00 MiB of host memory per node"
std::string describeSaving(const std::string &folder, uint64_t copyBytes);
/// "saved RUN/step-00000050  ..."
std::string toLine(const SavedCheckpoint &saved);
/// A JSON object, on one line.
std::string toJson(const StepStats &stats, std::optional<int64_t> epoch = {});

} // namespace fcdp::run
