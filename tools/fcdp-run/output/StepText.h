// SPDX-License-Identifier: Apache-2.0
//
// The figures of a step as text.
#pragma once

#include "output/StepFigures.h"
#include "session/CheckpointOptions.h"

#include <string>
#include <utility>
#include <vector>

namespace fcdp::run {

/// Two lines for people: what was learned, and how fast. Figures that are not
/// known are left out. All lines are narrow enough for a phone.
std::string toText(const StepFigures &figures);
/// Three indented lines: bytes sent and copied per node, and memory. They are
/// the same in most steps.
std::string describeBytes(const StepStats &stats);
/// The same of an evaluation: its loss, how fast it was, and what it sent.
std::string toText(const EvaluationFigures &figures);
/// "saving to RUN  copies take 12.00 MiB of host memory per node"
std::string describeSaving(const std::string &folder, uint64_t copyBytes);
/// "saved RUN/step-00000050  ..."
std::string toLine(const SavedCheckpoint &saved);
/// The numbers of a step by name, as the JSON object has them; those that are
/// not finite are NaN.
std::vector<std::pair<std::string, float>>
toScalars(const StepFigures &figures);
/// A JSON object, on one line. A number that is not finite is null, and one
/// that is not known is left out.
std::string toJson(const StepFigures &figures);
std::string toJson(const EvaluationFigures &figures);

} // namespace fcdp::run
