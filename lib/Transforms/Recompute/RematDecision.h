// SPDX-License-Identifier: Apache-2.0
//
// The work of --fcdp-decide-remat and --fcdp-remat on a function, for passes
// before them that need its memory.
#pragma once

#include "Options/OptimizerChoice.h"
#include "fcdp/Planning/Layout/BucketOptions.h"
#include "fcdp/Planning/Recompute/Rematerialization.h"
#include "fcdp/Transforms/Options/RematSpec.h"

namespace fcdp {

/// Turns the model's checkpoint regions into choices. Earlier choices take
/// precedence.
void chooseCheckpointed(mlir::func::FuncOp step);

/// Copies the calls that are chosen to the backward pass.
mlir::LogicalResult recomputeChosen(mlir::func::FuncOp step);

/// Decides which other calls run again.
class RematDecision {
public:
  /// Reads the options that say which parameters of a unit will share a bucket.
  static mlir::FailureOr<RematDecision> create(mlir::func::FuncOp step,
                                               llvm::StringRef optimizer,
                                               llvm::StringRef group,
                                               llvm::StringRef reduceType);
  llvm::Expected<Rematerialization> decide(mlir::func::FuncOp step,
                                           const RematSpec &spec,
                                           const CostModel *model) const;

private:
  BucketOptions buckets;
  UpdateByParameter updates;
};

} // namespace fcdp
