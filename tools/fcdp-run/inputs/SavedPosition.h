// SPDX-License-Identifier: Apache-2.0
//
// The position in the data, as checkpoints have it.
#pragma once

#include "checkpoint/Json.h"
#include "inputs/Inputs.h"

#include <nlohmann/json_fwd.hpp>

namespace fcdp::run {

/// The members of a checkpoint's "job" that tell where step `step` begins, and
/// what the position refers to.
nlohmann::ordered_json describePosition(const Inputs &inputs, int64_t step);

/// Has step `step` begin where a checkpoint's "job", `saved`, says, if it does.
/// Returns a sentence for each difference between the job's data and these
/// inputs. Throws std::runtime_error if the position is out of range.
std::vector<std::string> goOnAtPosition(const JsonNode &saved, int64_t step,
                                        Inputs &inputs);

} // namespace fcdp::run
