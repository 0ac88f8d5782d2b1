// SPDX-License-Identifier: Apache-2.0
//
// Loads the residuals of reductions in 8 or 4 bits, on any number of nodes.
#pragma once

#include "checkpoint/CheckpointReader.h"
#include "plan/StatePlaces.h"

#include <span>

namespace fcdp {

/// The role of residuals in checkpoints.
inline constexpr const char *kResidualRole = "residual";

/// The slice of a bucket's residual on one rank.
struct ResidualSlice {
  const StepPlan &plan;
  Place place;
  std::span<float> values;
};

/// Adds the saved nodes' residuals of a parameter to a slice, which begins as
/// zeros. Node n's residual goes to node n modulo the number of nodes. A node
/// sends nothing to itself, so the residual of its own part goes to the next
/// node. If the number of ranks has changed, residuals are scaled as the mean
/// over ranks requires. Returns whether the mesh has changed or a residual came
/// to another node.
bool addResidual(CheckpointReader &reader, const CheckpointState &state,
                 const plan::ParameterT &parameter, const ResidualSlice &slice);

} // namespace fcdp
