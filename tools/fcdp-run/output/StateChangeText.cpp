// SPDX-License-Identifier: Apache-2.0
#include "output/StateChangeText.h"

#include "state/NodeSums.h"

#include <algorithm>
#include <iterator>

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
  std::ranges::move(describe(changes.nodeSums), std::back_inserter(lines));
  return lines;
}

} // namespace fcdp::run
