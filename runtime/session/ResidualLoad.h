// SPDX-License-Identifier: Apache-2.0
//
// Loads what reductions in 8 or 4 bits have left out, on whatever nodes.
#pragma once

#include "checkpoint/CheckpointReader.h"
#include "plan/StatePlaces.h"

#include <span>

namespace fcdp {

/// The slice of a bucket's residual that a rank has.
struct ResidualSlice {
  const StepPlan &plan;
  Place place;
  std::span<float> values;
};

/// Adds to a slice, which begins as zeros, what the saved nodes have left out
/// of a parameter. Node n's goes to node n modulo the number of nodes. A node
/// sends nothing to itself, so what it would get of its own part goes to the
/// next one. On other nodes than saved it is scaled as the mean over ranks
/// needs it. Returns whether anything came to another node.
bool addResidual(CheckpointReader &reader, const CheckpointState &state,
                 const plan::ParameterT &parameter, const ResidualSlice &slice);

} // namespace fcdp
