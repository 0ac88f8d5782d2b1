// SPDX-License-Identifier: Apache-2.0
//
// Estimates updates of states in host memory by the node's processors.
#pragma once

#include "dialects/Fcdp/Fcdp.h"
#include "fcdp/Cluster/Cluster.h"
#include "fcdp/Cluster/Cost.h"

namespace fcdp {

/// Returns the bytes of the states that an update changes, for an element of
/// the shard.
double getStateBytesEach(BucketOp bucket, OptimizerAttrInterface optimizer);

/// Returns the cost of an update of `elements` elements of a rank's shard. Its
/// time is the longer one of the processors' and of the host memory's, which
/// the ranks of a node share.
Cost costOfHostUpdate(const Cluster &cluster, BucketOp bucket,
                      OptimizerAttrInterface optimizer, double elements);

} // namespace fcdp
