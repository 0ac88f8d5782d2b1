// SPDX-License-Identifier: Apache-2.0
//
// What is proved of a planned module before anything runs. Each proof emits an
// error that names the bucket and the source lines, or succeeds.
#pragma once

#include "mlir/IR/BuiltinOps.h"

#include <cstdint>

namespace fcdp {

/// Proves for every legal run, @init (first next* last update | only update)*,
/// that accesses to the same memory are ordered by streams and events, that
/// each read finds what it is meant to, and that each trained bucket is reduced
/// and updated once a step.
mlir::LogicalResult verifyRuns(mlir::ModuleOp module);

/// Proves that ranks of `module` and ranks of `peer`, which `peerName` names,
/// issue the same collectives in the same order.
mlir::LogicalResult verifySameCollectives(mlir::ModuleOp module,
                                          mlir::ModuleOp peer,
                                          llvm::StringRef peerName);

/// Proves that what each function sends and copies equals the closed forms of
/// the buckets' attributes.
mlir::LogicalResult verifyClosedForms(mlir::ModuleOp module);

/// Proves that the arena, with results of operators in it, and inputs take at
/// most `deviceBytes` per rank, and the host arena `hostBytes` per node; 0 is
/// no bound.
mlir::LogicalResult verifyBudget(mlir::ModuleOp module, int64_t deviceBytes,
                                 int64_t hostBytes);

} // namespace fcdp
