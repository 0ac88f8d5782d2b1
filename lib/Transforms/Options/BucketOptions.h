// SPDX-License-Identifier: Apache-2.0
//
// What options say of the parameters that share a bucket.
#pragma once

#include "dialects/Fcdp/Fcdp.h"
#include "fcdp/Analysis/BucketKind.h"

namespace fcdp {

/// What is asked for of new buckets; null if nothing is.
struct BucketOptions {
  /// The type of masters of trained parameters in a narrower type.
  mlir::Type master;
  /// The type in which gradients are reduced.
  mlir::Type reduce;
  /// The layout, unless the optimizer needs another one.
  LayoutAttr layout;
};

/// Returns the kind of the bucket of a parameter that a function reads in the
/// type `wire`, and that has a gradient of type `gradient` and is updated by
/// `optimizer`; each is null if it is not so.
BucketKind makeBucketKind(ParameterOp parameter, mlir::Type wire,
                          mlir::Type gradient, mlir::Attribute optimizer,
                          const BucketOptions &options);

} // namespace fcdp
