// SPDX-License-Identifier: Apache-2.0
//
// Loads a checkpoint into the step of a rank. The checkpoint may have another
// mesh, strategy and buckets.
#pragma once

#include "checkpoint/CheckpointReader.h"
#include "state/CheckpointOptions.h"
#include "step/Step.h"

#include <functional>

namespace fcdp {

/// Fills the states of the rank at `place`. If the checkpoint has no random
/// state for this rank, it starts one from `seed`, the rank's number and the
/// step. Masters and residuals may be in only the checkpoint or only the step.
/// Throws std::runtime_error that lists all other states that one of them lacks
/// or that differ, before anything is changed. The result reports whether
/// residuals are moved, from the view of this rank.
StateChanges loadCheckpoint(const StepPlan &plan, Place place, uint64_t seed,
                            CheckpointReader &reader, Step &step);

/// Makes the ranks agree on those of their `changes` that depend on the rank.
/// All ranks call it, with a function that returns whether `own` is true on any
/// of them.
void agreeOnChanges(const StepPlan &plan, StateChanges &changes,
                    const std::function<bool(bool own)> &isAnywhere);

} // namespace fcdp
