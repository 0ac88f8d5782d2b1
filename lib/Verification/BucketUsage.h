// SPDX-License-Identifier: Apache-2.0
//
// The use of each bucket in one function.
#pragma once

#include "fcdp/Analysis/Traffic.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/SymbolTable.h"
#include "llvm/ADT/MapVector.h"

namespace fcdp {

/// A live range: its first and last use, as indices into the function's uses.
struct UseSpan {
  size_t first, last;
};

/// The use of one bucket in one function.
struct BucketUsage {
  /// Live ranges by unit. A bucket may serve several units.
  llvm::MapVector<mlir::StringAttr, llvm::SmallVector<UseSpan>> ranges;
  int64_t rangeCount = 0;
  /// Whether its first copy in @next_microbatch is prefetched.
  bool crosses = false;
  /// Bytes of an element of its gradients; 0 if there are no gradients.
  int64_t gradientBytes = 0;
  /// Whether the function updates it.
  bool isUpdated = false;
  /// Bytes of an element of the differences by which nodes are synchronized; 0
  /// if there are none.
  int64_t differenceBytes = 0;
  /// Bytes that one rank sends and copies.
  LinkBytes bytes;
  /// One operation that sends or copies, by link.
  LinkArray<mlir::Operation *> examples;
};

using BucketUsages = llvm::DenseMap<mlir::StringAttr, BucketUsage>;

/// Returns the usage by bucket name. `caches` maps states to their buckets.
BucketUsages
collectUsages(mlir::func::FuncOp function, MeshOp mesh,
              const mlir::SymbolTable &symbols,
              const llvm::DenseMap<mlir::StringAttr, mlir::StringAttr> &caches);

} // namespace fcdp
