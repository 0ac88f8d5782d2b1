// SPDX-License-Identifier: Apache-2.0
//
// The options on the parameters that share a bucket.
#pragma once

#include "dialects/Fcdp/Fcdp.h"
#include "fcdp/Analysis/BucketKind.h"

namespace fcdp {

/// The properties that options require of new buckets. A null member requires
/// nothing.
struct BucketOptions {
  /// The type of masters of trained parameters in a narrower type.
  mlir::Type master;
  /// The type in which gradients are reduced.
  mlir::Type reduce;
  /// The layout, unless the optimizer needs another one.
  LayoutAttr layout;
};

/// Returns the layout of `bucket`, or `flat` if it has none.
LayoutAttr getLayout(BucketOp bucket);

/// Returns whether a trained parameter of type `storage` gets a master of type
/// `master`, which may be null.
bool needsMaster(mlir::Type storage, mlir::Type master);

/// Returns the kind of the bucket of a parameter. `wire` is the type in which a
/// function reads it, `gradient` is the type of its gradient, and `optimizer`
/// updates it. Each may be null.
BucketKind makeBucketKind(ParameterOp parameter, mlir::Type wire,
                          mlir::Type gradient, mlir::Attribute optimizer,
                          const BucketOptions &options);

} // namespace fcdp
