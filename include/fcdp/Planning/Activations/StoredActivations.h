// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fcdp/Cluster/CostModel.h"
#include "fcdp/Planning/Activations/ActivationProblem.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace fcdp {

/// A result of a call of the forward pass that the backward pass reads.
struct SavedValue {
  mlir::OpResult value;
  /// The operands of operations after the forward pass that are the value or a
  /// view of it that the forward pass makes.
  llvm::SmallVector<mlir::OpOperand *> uses;
};

/// The saved values of a function in phase sharded, and the problem of storing
/// them in host memory.
class StoredActivations {
public:
  /// Collects saved values that may be stored: results of calls that are new
  /// memory, of which nothing but calls reads any view after the forward pass.
  /// Values that are stored already, and those that calls compute from
  /// parameters alone, are left out.
  StoredActivations(mlir::func::FuncOp function, const CostModel &model);

  const ActivationProblem &getProblem() const { return problem; }
  llvm::ArrayRef<SavedValue> getValues() const { return values; }
  /// Returns whether the value's copies mostly move bytes. A smaller value
  /// costs a copy's latency and hardly frees memory.
  bool isLarge(size_t value) const { return large[value]; }
  /// Returns whether `fcdp.on_host` decides about the value.
  bool isGiven(size_t value) const;
  /// Returns the values that `fcdp.on_host` chooses.
  llvm::SmallVector<bool> findChosen() const;
  /// Sets `fcdp.on_host` of each call with a value, so that it has the values
  /// of `chosen`. Given attributes stay.
  void write(llvm::ArrayRef<bool> chosen) const;
  /// Returns all values that are large and not given.
  llvm::SmallVector<bool> findMovable() const;
  /// Removes what `write` has set.
  void erase(llvm::ArrayRef<bool> chosen) const;
  /// Makes the copies. Operations after the forward pass read what is loaded.
  void apply(const ActivationSolution &solution);

private:
  void collect(mlir::OpResult value, mlir::Operation *end);
  void replace(const SavedValue &saved, mlir::Value loaded);

  mlir::func::FuncOp function;
  llvm::SmallVector<mlir::Operation *> ops;
  llvm::DenseMap<mlir::Operation *, size_t> positions;
  llvm::SmallVector<SavedValue> values;
  llvm::SmallVector<bool> large;
  ActivationProblem problem;
  const CostModel &model;
};

/// Sets `fcdp.on_host` so that all values of a module in phase sharded that may
/// be in host memory, and are worth a copy, are there. Removes it again when it
/// is destroyed, except after `keep`.
class AllOnHost {
public:
  AllOnHost(mlir::ModuleOp module, const CostModel &model);
  AllOnHost(const AllOnHost &) = delete;
  AllOnHost &operator=(const AllOnHost &) = delete;
  ~AllOnHost();

  /// Returns the sum of the values' bytes in the function with the most.
  int64_t getBytes() const { return bytes; }
  void keep() {
    functions.clear();
    written.clear();
  }

private:
  std::vector<StoredActivations> functions;
  /// By function, the values that were put into host memory.
  std::vector<llvm::SmallVector<bool>> written;
  int64_t bytes = 0;
};

/// Returns the bytes of results of operators that are in use at each position,
/// by measureActivations, without values of `fcdp.on_host` while they are
/// expected to be in host memory. It is an estimate for functions in phase
/// sharded, in which the copies have not been made.
std::vector<int64_t> measureKeptActivations(mlir::func::FuncOp function,
                                            const CostModel &model);

} // namespace fcdp
