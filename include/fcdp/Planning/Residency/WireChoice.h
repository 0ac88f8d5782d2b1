// SPDX-License-Identifier: Apache-2.0
//
// What buckets send between nodes, where nothing is given.
#pragma once

#include "fcdp/Cluster/CostModel.h"

namespace fcdp {

/// What gathers send between nodes.
enum class GatherWireSpec { raw, delta, automatic };

struct WireChoice {
  GatherWireSpec gathers = GatherWireSpec::raw;
  /// raw, coded, int8 or int4.
  Wire reductions = Wire::raw;

  /// Returns what gathers of `bucket` send while a slice of it is in host
  /// memory. `automatic` takes what `model` says is faster.
  Wire getGatherWire(BucketOp bucket, const CostModel *model) const;
  /// Returns what its reductions send unless they are flat.
  Wire getReduceWire(BucketOp bucket) const;
};

} // namespace fcdp
