// SPDX-License-Identifier: Apache-2.0
//
// The states that operations read and write, by the memory effects that
// FcdpOps.td declares. Analyses and passes that order or move operations ask
// here instead of knowing the operations.
#pragma once

#include "dialects/Fcdp/Fcdp.h"
#include "llvm/ADT/MapVector.h"

namespace fcdp {

/// A read or a write of memory that outlives a function.
struct Access {
  /// The name of a state. The parameters and the optimizer's states of a bucket
  /// are one state, with the bucket's name. Before bucketing, that is a
  /// parameter's name.
  mlir::StringAttr state;
  bool isWrite;
  /// Whether this is the accumulator of the parameter or bucket `state`. Once
  /// accumulators are states, they have names of their own.
  bool isSumOf = false;
};

/// Reads the accesses of the operations of one module. Operations may be added,
/// moved and removed meanwhile, but not states and accumulates.
class Accesses {
public:
  explicit Accesses(mlir::ModuleOp module);

  /// Returns what `op` reads and writes, reads of its operands first. An
  /// operation that only names memory accesses nothing; the users of its result
  /// do.
  llvm::SmallVector<Access> get(mlir::Operation *op) const;

  /// Returns whether `op` accesses all accumulators.
  static bool isOnAllSums(mlir::Operation *op);

private:
  void addEffects(mlir::Operation *op,
                  llvm::SmallVectorImpl<Access> &accesses) const;

  /// The names of accumulators by the names that operations give them.
  llvm::MapVector<mlir::StringAttr, mlir::StringAttr> sums;
  /// Whether accumulators are states.
  bool areStates = false;
};

} // namespace fcdp
