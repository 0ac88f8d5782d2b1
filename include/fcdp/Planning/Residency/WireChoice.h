// SPDX-License-Identifier: Apache-2.0
//
// The form in which buckets send values between nodes, for buckets that do not
// give it.
#pragma once

#include "dialects/Fcdp/Wires.h"
#include "fcdp/Planning/Residency/MessageCosts.h"

namespace fcdp {

/// The form in which gathers send values between nodes.
enum class GatherWireSpec { raw, delta, automatic };

class WireChoice : public MessageCosts {
public:
  explicit WireChoice(GatherWireSpec gathers = GatherWireSpec::raw,
                      Wire reductions = Wire::raw)
      : gathers(gathers), reductions(reductions) {}

  GatherWireSpec gathers;
  /// One of raw, coded, int8 or int4.
  Wire reductions;

  /// Returns the wire of the gathers of `bucket` while a slice of it is in host
  /// memory. `automatic` takes the wire that is faster by `model`.
  Wire getGatherWire(BucketOp bucket, const CostModel *model) const;
  /// Returns the wire of the bucket's reductions, unless they are flat.
  Wire getReduceWire(BucketOp bucket) const;

  std::optional<Cost>
  costOfReferringGather(BucketOp bucket, double partBytes,
                        const CostModel &model) const override;
  Cost costOfReduction(BucketOp bucket, mlir::Type element, double partBytes,
                       const CostModel &model) const override;
  /// `model` may be null unless gathers are `automatic`.
  void apply(mlir::ModuleOp module, const CostModel *model) const override;
};

} // namespace fcdp
