// SPDX-License-Identifier: Apache-2.0
//
// Loads a checkpoint into the step of a rank, whatever mesh, strategy and
// buckets it was saved with.
#pragma once

#include "checkpoint/CheckpointReader.h"
#include "session/CheckpointOptions.h"
#include "step/Step.h"

namespace fcdp {

/// Fills the states of the rank at `place`. A rank that the checkpoint has no
/// random state for starts one from `seed`, its number and the step. Masters
/// and residuals may be on one side only. Throws std::runtime_error that lists
/// all other states that one side lacks or that differ, before anything is
/// changed. Says whether residuals are moved as this rank sees it.
StateChanges loadCheckpoint(const StepPlan &plan, Place place, uint64_t seed,
                            CheckpointReader &reader, Step &step);

} // namespace fcdp
