// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fcdp/Driver/Progress.h"
#include "fcdp/Driver/StepOptions.h"
#include "fcdp/Report/Sweep.h"
#include "mlir/IR/MLIRContext.h"

namespace fcdp {

/// Plans and simulates each of `inputs` at all points of `axes`, of which each
/// is of another key. What is not swept is as `options` has it, whose cluster
/// is given. A plan serves all bandwidths and memories, unless its strategy is
/// `auto`. Where a point has no plan its result says why; fails, after an
/// error that is reported, where an input or the cluster cannot be read.
mlir::FailureOr<Sweep> runSweep(llvm::ArrayRef<std::string> inputs,
                                llvm::ArrayRef<SweepAxis> axes,
                                const StepOptions &options,
                                mlir::MLIRContext &context, Progress &progress);

} // namespace fcdp
