// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fcdp/Driver/Progress.h"
#include "fcdp/Driver/StepOptions.h"
#include "fcdp/Report/Sweep.h"
#include "mlir/IR/MLIRContext.h"

namespace fcdp {

/// Plans and simulates each of `inputs` at all points of `axes`, which have
/// different keys. `options`, which must name a cluster, gives the values that
/// are not swept. One plan is used for all bandwidths and memories, unless its
/// strategy is `auto`. The result of a point without a plan states the reason.
/// Returns failure, with an error, if an input or the cluster cannot be read.
mlir::FailureOr<Sweep> runSweep(llvm::ArrayRef<std::string> inputs,
                                llvm::ArrayRef<SweepAxis> axes,
                                const StepOptions &options,
                                mlir::MLIRContext &context, Progress &progress);

} // namespace fcdp
