// SPDX-License-Identifier: Apache-2.0
//
// The cost of coded messages between nodes (docs/wires.md).
#pragma once

#include "dialects/Fcdp/Enums.h"
#include "fcdp/Cluster/Cluster.h"
#include "fcdp/Cluster/Cost.h"

namespace fcdp {

class CollectiveOpInterface;

/// Return the cost of collectives over `node` with coded messages. A gather has
/// one part of `partBytes` from each of `ranks` ranks, and a reduction leaves
/// one on each. Values are coded before any is sent, and decoded after the last
/// has arrived. `elementBytes` is the size of a gradient in the reduction, and
/// `wire` is not `raw`. A GPU (`target`) rounds as fast as it reads and writes
/// residuals in host memory.
Cost costOfDeltaGather(const Cluster &cluster, int64_t ranks, double partBytes);
Cost costOfCodedReduction(const Cluster &cluster, int64_t ranks,
                          double partBytes, int64_t elementBytes, Wire wire,
                          Target target);

/// Returns the cost of a collective over `node` with coded messages, of which a
/// rank's input has `bytes`; none if its messages are not coded.
std::optional<Cost> costOfMessages(const Cluster &cluster,
                                   CollectiveOpInterface collective,
                                   int64_t ranks, double bytes);

} // namespace fcdp
