// SPDX-License-Identifier: Apache-2.0
//
// What one function does with each bucket.
#pragma once

#include "fcdp/Analysis/Buffers.h"
#include "fcdp/Analysis/Traffic.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/SymbolTable.h"
#include "llvm/ADT/MapVector.h"

#include <array>

namespace fcdp {

/// A live range: its first and last use, as indices of the function's uses.
struct UseSpan {
  size_t first, last;
};

/// What is known of a bucket in one function.
struct BucketUsage {
  /// Live ranges, by unit: a bucket may serve several.
  llvm::MapVector<mlir::StringAttr, llvm::SmallVector<UseSpan>> ranges;
  int64_t rangeCount = 0;
  /// Whether its first copy in @next_microbatch is prefetched.
  bool crosses = false;
  /// Bytes of an element of its gradients; 0 if there are none.
  int64_t gradientBytes = 0;
  /// What one rank sends and copies.
  LinkBytes bytes;
  /// One operation that does, by link.
  std::array<mlir::Operation *, 4> examples{};
};

using BucketUsages = llvm::DenseMap<mlir::StringAttr, BucketUsage>;

/// What a rank sends over one link, or copies.
struct LinkTraffic {
  llvm::StringRef what;
  uint64_t LinkBytes::*bytes;
};
inline constexpr std::array<LinkTraffic, 4> kLinkTraffic = {
    LinkTraffic{"sends between nodes", &LinkBytes::inter},
    LinkTraffic{"sends within the node", &LinkBytes::intra},
    LinkTraffic{"loads from host memory", &LinkBytes::hostToDevice},
    LinkTraffic{"stores to host memory", &LinkBytes::deviceToHost}};

/// By the buckets' names; `caches` has the bucket of each state.
BucketUsages
collectUsages(mlir::func::FuncOp function, MeshOp mesh,
              const mlir::SymbolTable &symbols,
              const llvm::DenseMap<mlir::StringAttr, mlir::StringAttr> &caches);

} // namespace fcdp
