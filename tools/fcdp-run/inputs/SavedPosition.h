// SPDX-License-Identifier: Apache-2.0
//
// Saves the position in the data in checkpoints, and restores it.
#pragma once

#include "files/Json.h"
#include "inputs/Inputs.h"

#include <nlohmann/json_fwd.hpp>

namespace fcdp::run {

/// Returns the members of a checkpoint's "job" with the position at which step
/// `step` begins, and the data that it refers to.
nlohmann::ordered_json describePosition(const Inputs &inputs, int64_t step);

/// Makes step `step` begin at the position in a checkpoint's "job", `saved`, if
/// it has one. Returns a sentence for each difference between the job's data
/// and these inputs. Throws std::runtime_error if the position is out of range.
std::vector<std::string> goOnAtPosition(const JsonNode &saved, int64_t step,
                                        Inputs &inputs);

} // namespace fcdp::run
