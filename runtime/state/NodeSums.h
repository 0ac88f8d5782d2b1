// SPDX-License-Identifier: Apache-2.0
//
// Loads states of which each node has its own, and of which only the sum over
// nodes matters, on any number of nodes: the values that a node's messages have
// left out so far.
#pragma once

#include "checkpoint/CheckpointReader.h"
#include "plan/StatePlaces.h"
#include "state/CheckpointOptions.h"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fcdp {

/// Return whether states of a role are such, in plans and in checkpoints.
bool isNodeSum(plan::StateRole role);
bool isNodeSum(std::string_view savedRole);

/// The slice of a bucket's state on one rank.
struct NodeSumSlice {
  const StepPlan &plan;
  Place place;
  std::span<float> values;
};

/// Adds the saved nodes' values of a parameter to a slice, which begins as
/// zeros. The values of node n go to node n modulo the number of nodes. A node
/// sends nothing to itself, so the values of its own part go to the next node.
/// If the number of ranks has changed, values are scaled as the mean over ranks
/// requires. Returns whether the mesh has changed or values came to another
/// node.
bool addNodeSums(CheckpointReader &reader, const CheckpointState &state,
                 const plan::ParameterT &parameter, const NodeSumSlice &slice);

/// Returns a line for each change that a load has made.
std::vector<std::string> describe(const NodeSumChanges &changes);

} // namespace fcdp
