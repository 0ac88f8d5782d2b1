// SPDX-License-Identifier: Apache-2.0
//
// The form in which buckets send values between nodes, for buckets that do not
// give it.
#pragma once

#include "fcdp/Cluster/CostModel.h"

namespace fcdp {

/// The form in which gathers send values between nodes.
enum class GatherWireSpec { raw, delta, automatic };

struct WireChoice {
  GatherWireSpec gathers = GatherWireSpec::raw;
  /// One of raw, coded, int8 or int4.
  Wire reductions = Wire::raw;

  /// Returns the wire of the gathers of `bucket` while a slice of it is in host
  /// memory. `automatic` takes the wire that is faster by `model`.
  Wire getGatherWire(BucketOp bucket, const CostModel *model) const;
  /// Returns the wire of the bucket's reductions, unless they are flat.
  Wire getReduceWire(BucketOp bucket) const;
};

} // namespace fcdp
