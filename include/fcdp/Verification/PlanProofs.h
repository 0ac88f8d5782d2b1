// SPDX-License-Identifier: Apache-2.0
//
// The properties of a planned module that are proved before anything runs. Each
// proof succeeds, or emits an error that names the bucket and the source lines.
//
// The proofs do not link the planner. Claims of the planner are passed to them.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <cstdint>
#include <vector>

namespace fcdp {

/// Bytes [offset, offset + bytes) of the device arena that results of operators
/// may be in while the operations [begin, end) of `function` run, in positions.
struct FreeRange {
  mlir::func::FuncOp function;
  int64_t offset, bytes;
  int64_t begin, end;
};

/// Bytes [offset, offset + bytes) of the device arena for memory that an
/// operator allocates. Those of one operation come in the order of its results.
struct PlacedResult {
  mlir::Operation *op;
  int64_t offset, bytes;
};

/// What the object of a module says about device memory.
struct PlannedMemory {
  /// Bytes of the arena of each rank.
  int64_t arenaBytes;
  std::vector<FreeRange> free;
  std::vector<PlacedResult> results;
};

/// Proves for every legal run (dialects/Fcdp/StepFamily.h) that accesses to the
/// same memory are ordered by streams and events, that each read finds what it
/// is meant to, and that each trained bucket is reduced and updated once a
/// step. Operators are taken to write to all of `free`.
mlir::LogicalResult verifyRuns(mlir::ModuleOp module,
                               llvm::ArrayRef<FreeRange> free);

/// Proves that each operand of a call is the parameter that the call names, and
/// that each gradient is packed as that of the parameter that its call names.
mlir::LogicalResult verifyIdentities(mlir::ModuleOp module);

/// Proves that what each function sends and copies equals the closed forms of
/// the buckets' attributes.
mlir::LogicalResult verifyClosedForms(mlir::ModuleOp module);

/// Proves that a rank needs at most `deviceBytes` of device memory and a node
/// at most `hostBytes` of host memory; 0 is no bound. For the device it proves
/// that all states, buffers and operator results are inside the arena of
/// `planned`, and that no result shares bytes with anything that is in use at
/// the same time. It takes places and sizes from `planned`, and finds by itself
/// what needs a place and until when. Then arena, inputs and buffers of the
/// model are what a rank needs.
mlir::LogicalResult verifyBudget(mlir::ModuleOp module,
                                 const PlannedMemory &planned,
                                 int64_t deviceBytes, int64_t hostBytes);

} // namespace fcdp
