// SPDX-License-Identifier: Apache-2.0
//
// Gives the cost of operations on a cluster. Decisions, schedule and simulator
// use the same model.
#pragma once

#include "dialects/Fcdp/Fcdp.h"
#include "fcdp/Cluster/Cluster.h"
#include "fcdp/Cluster/CollectiveCost.h"
#include "fcdp/Cluster/Cost.h"

namespace fcdp {

/// Gives measured costs if the cluster has a profile with the operation, and
/// estimates from the cluster's description otherwise. It supports the phases
/// from sharded on, and ATen calls in every phase.
class CostModel {
public:
  explicit CostModel(const Cluster &cluster) : cluster(cluster) {}

  const Cluster &getCluster() const { return cluster; }

  /// Returns the cost of `op` on one rank. Operations that do no work (views,
  /// reads of states, waits) cost nothing. Assumes that the module's mesh has
  /// the shape of the cluster.
  Cost costOf(mlir::Operation *op) const;

  /// Returns the cost of a gather along `axis` with one part of `partBytes`
  /// from each of `ranks` ranks.
  Cost costOfGather(Axis axis, int64_t ranks, double partBytes) const;
  /// Returns the cost of a reduction along `axis` that leaves a part of
  /// `partBytes` on each of `ranks` ranks.
  Cost costOfReduction(Axis axis, int64_t ranks, double partBytes) const;
  /// Return the cost of the same collectives over both axes in one step, by the
  /// cluster's algorithm. The cost names the link that takes longer. The other
  /// link is also in use, but for no longer.
  Cost costOfFlatGather(double partBytes) const;
  Cost costOfFlatReduction(double partBytes) const;
  /// Return the cost of a copy of `bytes` per rank to or from host memory.
  Cost costOfStore(double bytes) const;
  Cost costOfLoad(double bytes) const;
  /// Returns whether an update of states in host memory is predicted to take
  /// less time on the node's processors than if it streams them.
  bool isFasterOnHost(BucketOp bucket, OptimizerAttrInterface optimizer) const;

private:
  Cluster cluster;
};

} // namespace fcdp
