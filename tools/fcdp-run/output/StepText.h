// SPDX-License-Identifier: Apache-2.0
//
// Formats the figures of a step.
#pragma once

#include "output/StepFigures.h"
#include "state/CheckpointOptions.h"

#include <string>
#include <utility>
#include <vector>

namespace fcdp::run {

/// Returns two lines for people: the loss and its like, and the speed. Unknown
/// figures are left out. All lines are narrow enough for a phone.
std::string toText(const StepFigures &figures);
/// Returns three indented lines: bytes sent and copied per node, and memory.
/// They are equal in most steps.
std::string describeBytes(const StepStats &stats);
/// Returns the lines of an evaluation: its loss, its speed, and the bytes that
/// it sent.
std::string toText(const EvaluationFigures &figures);
/// Returns "saving to RUN  copies take 12.00 MiB of host memory per node".
std::string describeSaving(const std::string &folder, uint64_t copyBytes);
/// Returns "saved RUN/step-00000050  ...".
std::string toLine(const SavedCheckpoint &saved);
/// Returns the numbers of a step by their names in the JSON object. Nonfinite
/// numbers are NaN.
std::vector<std::pair<std::string, float>>
toScalars(const StepFigures &figures);
/// Returns a JSON object on one line. A nonfinite number is null, and an
/// unknown one is left out.
std::string toJson(const StepFigures &figures);
std::string toJson(const EvaluationFigures &figures);

} // namespace fcdp::run
