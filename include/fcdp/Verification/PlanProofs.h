// SPDX-License-Identifier: Apache-2.0
//
// The properties of a planned module that are proved before anything runs. Each
// proof succeeds, or emits an error that names the bucket and the source lines.
//
// The proofs do not link the planner. They take the planner's claims as
// arguments.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <cstdint>
#include <vector>

namespace fcdp {

/// Bytes [offset, offset + bytes) of the device arena that results of operators
/// may use while the operations [begin, end) of `function` run, given by their
/// positions.
struct FreeRange {
  mlir::func::FuncOp function;
  int64_t offset, bytes;
  int64_t begin, end;
};

/// Bytes [offset, offset + bytes) of the device arena for memory that an
/// operator allocates. The results of one operation are in order.
struct PlacedResult {
  mlir::Operation *op;
  int64_t offset, bytes;
};

/// The device memory that the object of a module claims.
struct PlannedMemory {
  /// Bytes of the arena of each rank.
  int64_t arenaBytes;
  std::vector<FreeRange> free;
  std::vector<PlacedResult> results;
};

/// Proves for every legal run (dialects/Fcdp/StepFamily.h) that accesses to the
/// same memory are ordered by streams and events, that each read finds the
/// value that it should, and that each trained bucket is reduced and updated
/// once per step. Operators are assumed to write to all of `free`.
mlir::LogicalResult verifyRuns(mlir::ModuleOp module,
                               llvm::ArrayRef<FreeRange> free);

/// Proves that each operand of a call is the parameter that the call names, and
/// that each gradient is packed as the gradient of the parameter that its call
/// names.
mlir::LogicalResult verifyIdentities(mlir::ModuleOp module);

/// Proves that the bytes that each function sends and copies equal the closed
/// forms of the buckets' attributes.
mlir::LogicalResult verifyClosedForms(mlir::ModuleOp module);

/// Proves that a rank needs at most `deviceBytes` of device memory and a node
/// at most `hostBytes` of host memory; 0 means no bound. For the device it
/// proves that all states, buffers and operator results are inside the arena of
/// `planned`, and that no result shares bytes with anything that is in use at
/// the same time. It takes places and sizes from `planned`, and derives
/// independently which values need a place and until when. From this it follows
/// that the arena, the inputs and the buffers of the model are all that a rank
/// needs.
mlir::LogicalResult verifyBudget(mlir::ModuleOp module,
                                 const PlannedMemory &planned,
                                 int64_t deviceBytes, int64_t hostBytes);

} // namespace fcdp
