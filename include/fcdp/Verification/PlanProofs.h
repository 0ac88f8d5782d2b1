// SPDX-License-Identifier: Apache-2.0
//
// The properties of a planned module that are proved before anything runs. Each
// proof succeeds, or emits an error that names the bucket and the source lines.
//
// The proofs do not link the planner. Claims of the planner are passed to them.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <cstdint>

namespace fcdp {

/// Bytes [offset, offset + bytes) of the device arena that results of operators
/// may be in while the operations [begin, end) of `function` run, in positions.
struct FreeRange {
  mlir::func::FuncOp function;
  int64_t offset, bytes;
  int64_t begin, end;
};

/// Proves for every legal run, @init (first next* last update | only update)*,
/// that accesses to the same memory are ordered by streams and events, that
/// each read finds what it is meant to, and that each trained bucket is reduced
/// and updated once a step. Operators are taken to write to all of `free`.
mlir::LogicalResult verifyRuns(mlir::ModuleOp module,
                               llvm::ArrayRef<FreeRange> free);

/// Proves that what each function sends and copies equals the closed forms of
/// the buckets' attributes.
mlir::LogicalResult verifyClosedForms(mlir::ModuleOp module);

/// Proves that the `neededBytes` of device memory of a rank are at most
/// `deviceBytes`, and the host arena takes at most `hostBytes` per node; 0 is
/// no bound.
mlir::LogicalResult verifyBudget(mlir::ModuleOp module, int64_t neededBytes,
                                 int64_t deviceBytes, int64_t hostBytes);

} // namespace fcdp
