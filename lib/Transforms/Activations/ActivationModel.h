// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dialects/Fcdp/Fcdp.h"
#include "fcdp/Cluster/Cluster.h"

namespace fcdp {

/// Returns the cluster whose times decide about values of the forward pass: the
/// described one, the named one, or A100 GPUs. Emits an error if it cannot be
/// read.
mlir::FailureOr<Cluster>
getActivationCluster(mlir::ModuleOp module,
                     const std::optional<Cluster> &described,
                     llvm::StringRef cluster, llvm::StringRef profile);

} // namespace fcdp
