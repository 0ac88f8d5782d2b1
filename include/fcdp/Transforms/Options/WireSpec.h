// SPDX-License-Identifier: Apache-2.0
//
// The form in which buckets send values between nodes, for buckets that do not
// give it: what the options ask for, and the choice for a bucket.
#pragma once

#include "dialects/Fcdp/Wires.h"
#include "fcdp/Planning/Residency/MessageCosts.h"
#include "llvm/Support/Error.h"

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

/// Parses `raw`, `delta` or `auto`. Errors list them.
llvm::Expected<GatherWireSpec> parseGatherWire(llvm::StringRef text);

/// Parses `raw`, `coded`, `int8` or `int4`. Errors list them.
llvm::Expected<Wire> parseReduceWire(llvm::StringRef text);

/// Returns the choice that options ask for. Pre: both parse without an error.
WireChoice getWireChoice(llvm::StringRef gathers, llvm::StringRef reductions);

} // namespace fcdp
