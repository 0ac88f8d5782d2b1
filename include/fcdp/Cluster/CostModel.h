// SPDX-License-Identifier: Apache-2.0
//
// What operations cost on a cluster. The decisions, the schedule and the
// simulator ask the same model.
#pragma once

#include "dialects/Fcdp/Fcdp.h"
#include "fcdp/Cluster/Cluster.h"
#include "fcdp/Cluster/CollectiveCost.h"
#include "fcdp/Cluster/Cost.h"

namespace fcdp {

/// What was measured, if the cluster has a profile that knows of it, or else an
/// estimate from the cluster's description. Users of the model do not ask which
/// of the two an answer is. Answers for the phases from sharded
/// on, and for ATen calls in every phase.
class CostModel {
public:
  explicit CostModel(const Cluster &cluster) : cluster(cluster) {}

  const Cluster &getCluster() const { return cluster; }

  /// What `op` costs a rank. What does no work (views, reads of states, waits)
  /// costs nothing. The module's mesh is taken to be the cluster's.
  Cost costOf(mlir::Operation *op) const;

  /// A gather along `axis` of parts of `partBytes`, one from each of `ranks`.
  Cost costOfGather(Axis axis, int64_t ranks, double partBytes) const;
  /// A reduction along `axis` that leaves each of `ranks` a part.
  Cost costOfReduction(Axis axis, int64_t ranks, double partBytes) const;
  /// The same over both axes in one step, as the cluster does it. The cost is
  /// on the link that it takes longer on; the other is in use, too, but not
  /// longer.
  Cost costOfFlatGather(double partBytes) const;
  Cost costOfFlatReduction(double partBytes) const;
  /// A copy of `bytes` of each rank to or from host memory.
  Cost costOfStore(double bytes) const;
  Cost costOfLoad(double bytes) const;

private:
  Cluster cluster;
};

} // namespace fcdp
