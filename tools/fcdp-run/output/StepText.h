// SPDX-License-Identifier: Apache-2.0
//
// The figures of a step as text.
#pragma once

#include "session/CheckpointOptions.h"
#include "session/StepStats.h"

#include <string>
#include <vector>

namespace fcdp::run {

/// The line for people. `epochs` are those of each series of rows, from 1;
/// empty if the data has no end.
std::string toLine(const StepStats &stats, const std::vector<int64_t> &epochs);
/// "saving to RUN  copies take 12.00 MiB of host memory per node"
std::string describeSaving(const std::string &folder, uint64_t copyBytes);
/// "saved RUN/step-00000050  ..."
std::string toLine(const SavedCheckpoint &saved);
/// A JSON object, on one line. A loss that is not finite is null.
std::string toJson(const StepStats &stats,
                   const std::vector<int64_t> &epochs = {});

} // namespace fcdp::run
