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

/// The form in which reductions send values between nodes. It is one of
/// raw, coded, int8 or int4, or none to choose between the exact ones.
using ReduceWireSpec = std::optional<Wire>;

class WireChoice : public MessageCosts {
public:
  explicit WireChoice(GatherWireSpec gathers = GatherWireSpec::raw,
                      ReduceWireSpec reductions = Wire::raw)
      : gathers(gathers), reductions(reductions) {}

  GatherWireSpec gathers;
  ReduceWireSpec reductions;
  /// Whether each step sums gradients between nodes.
  bool isSummed = true;

  bool sumsBetweenNodes() const override { return isSummed; }

  /// Returns whether a form is chosen by the cost model.
  bool needsModel() const {
    return gathers == GatherWireSpec::automatic || !reductions;
  }

  /// Returns the wire of the gathers of `bucket` while a slice of it is in host
  /// memory. `automatic` takes the wire that is faster by `model`.
  Wire getGatherWire(BucketOp bucket, const CostModel *model) const;
  /// Returns the wire of the bucket's reductions, unless they are flat, of
  /// gradients of type `element` (null if there are none) that leave
  /// `partBytes` on each rank.
  Wire getReduceWire(BucketOp bucket, mlir::Type element, double partBytes,
                     const CostModel *model) const;

  std::optional<Cost>
  costOfReferringGather(BucketOp bucket, double partBytes,
                        const CostModel &model) const override;
  Cost costOfReduction(BucketOp bucket, mlir::Type element, double partBytes,
                       const CostModel &model) const override;
  /// `model` may be null unless one is needed.
  void apply(mlir::ModuleOp module, const CostModel *model) const override;
};

/// Parses `raw`, `delta` or `auto`. Errors list them.
llvm::Expected<GatherWireSpec> parseGatherWire(llvm::StringRef text);

/// Parses `auto`, or `raw`, `coded`, `int8` or `int4`. Errors list them.
llvm::Expected<ReduceWireSpec> parseReduceWire(llvm::StringRef text);

/// Returns the choice that options ask for. Pre: both parse without an error.
WireChoice getWireChoice(llvm::StringRef gathers, llvm::StringRef reductions);

} // namespace fcdp
