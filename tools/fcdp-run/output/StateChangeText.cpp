// SPDX-License-Identifier: Apache-2.0
#include "output/StateChangeText.h"

namespace fcdp::run {

std::vector<std::string> describeChanges(const StateChanges &changes,
                                         bool reducesWithinNodes) {
  std::vector<std::string> lines;
  if (size_t started = changes.masters.started)
    lines.push_back("the checkpoint has no masters of " +
                    std::to_string(started) +
                    " parameters: they start from the parameters' values");
  if (size_t dropped = changes.masters.dropped)
    lines.push_back("the step has no masters of " + std::to_string(dropped) +
                    " parameters: it goes on from their rounding");
  if (size_t started = changes.residuals.started)
    lines.push_back(
        "the checkpoint has no residuals of reductions in 8 or 4 bits of " +
        std::to_string(started) + " parameters: they start as zeros");
  if (size_t dropped = changes.residuals.dropped)
    lines.push_back("the step has no reductions in 8 or 4 bits of " +
                    std::to_string(dropped) +
                    " parameters: their residuals in the checkpoint are lost");
  if (changes.outer.started)
    lines.push_back(
        "the checkpoint has no states of outer steps: all nodes start from its "
        "parameters, and momentum as zeros");
  if (changes.outer.dropped)
    lines.push_back(
        "the step has no outer steps, or none with momentum: their states in "
        "the checkpoint are lost");
  if (changes.outer.areJoined)
    lines.push_back(
        "the checkpoint is of other nodes, which trained by themselves: the "
        "job goes on from their common outer parameters, and with the "
        "optimizer's states of " +
        std::string(reducesWithinNodes ? "one of them for each node"
                                       : "the first"));
  if (changes.residuals.areMoved)
    lines.push_back(
        "the checkpoint is of other nodes or another layout: the residuals of "
        "reductions in 8 or 4 bits move to the nodes of this job, with the "
        "same sum");
  return lines;
}

} // namespace fcdp::run
