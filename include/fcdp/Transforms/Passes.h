// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dialects/Aten/Aten.h"
#include "dialects/Fcdp/Fcdp.h"
#include "fcdp/Cluster/Cluster.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"

#include <optional>

namespace fcdp {

#define GEN_PASS_DECL
#include "fcdp/Transforms/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "fcdp/Transforms/Passes.h.inc"

/// Create passes that decide for `described`, if it is given, instead of the
/// cluster that their options name.
std::unique_ptr<mlir::Pass>
createChunkLossPass(ChunkLossPassOptions options,
                    std::optional<Cluster> described);
std::unique_ptr<mlir::Pass>
createDecideRematPass(DecideRematPassOptions options,
                      std::optional<Cluster> described);
std::unique_ptr<mlir::Pass>
createDecideWiresPass(DecideWiresPassOptions options,
                      std::optional<Cluster> described);
std::unique_ptr<mlir::Pass>
createDecideStatesPass(DecideStatesPassOptions options,
                       std::optional<Cluster> described);
std::unique_ptr<mlir::Pass> createDecidePass(DecidePassOptions options,
                                             std::optional<Cluster> described);
std::unique_ptr<mlir::Pass>
createDecideOverlapPass(DecideOverlapPassOptions options,
                        std::optional<Cluster> described);
std::unique_ptr<mlir::Pass>
createDecideActivationsPass(DecideActivationsPassOptions options,
                            std::optional<Cluster> described);
std::unique_ptr<mlir::Pass>
createStoreActivationsPass(StoreActivationsPassOptions options,
                           std::optional<Cluster> described);

} // namespace fcdp
