// SPDX-License-Identifier: Apache-2.0
//
// Moves a program over the parameters of a step into the step's module.
#pragma once

#include "dialects/Fcdp/Fcdp.h"
#include "fcdp/Import/Pt2Tensors.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <optional>
#include <string>
#include <vector>

namespace fcdp {

/// Reads the values of constants. Returns none for a constant without an
/// archive or a value.
class ConstantValues {
public:
  explicit ConstantValues(mlir::ModuleOp module);

  std::optional<std::vector<char>> get(llvm::StringRef name) const;

private:
  std::optional<Pt2Tensors> tensors;
};

/// A program that is added to the step in `module`. Parameters and buffers
/// become the step's by name. Everything else stays separate, and `mark` gives
/// it the attributes that tell it apart.
class AddedProgram {
public:
  /// `what` names the program in errors, for example "the evaluation". Its
  /// symbols get names that begin with `prefix`.
  AddedProgram(mlir::ModuleOp module, mlir::ModuleOp program, std::string what,
               std::string prefix);

  /// Check that both are imported steps for one device, and find the step's
  /// parameter for each of the program's.
  mlir::LogicalResult checkSame();
  mlir::LogicalResult matchParameters();
  /// Replaces each buffer by the step's if name, type and value are equal.
  /// `mark` is called for every other one, and fails if that buffer cannot be
  /// the program's own.
  mlir::LogicalResult
  takeBuffers(llvm::function_ref<mlir::LogicalResult(BufferOp)> mark);
  void takeInput(InputOp input) { take(input); }
  /// Moves the program's function to the end of the step's module, where it
  /// gets `name`.
  mlir::func::FuncOp takeFunction(llvm::StringRef name);

  mlir::InFlightDiagnostic fail(const llvm::Twine &how);

private:
  ParameterOp findParameter(ParameterOp own);
  bool isShared(BufferOp own, BufferOp other);
  void take(mlir::Operation *symbol);

  mlir::ModuleOp module, program;
  mlir::SymbolTable symbols;
  const ConstantValues ownValues, values;
  const std::string what, prefix;
  /// The step's parameters by each of their names.
  llvm::DenseMap<llvm::StringRef, ParameterOp> byName;
  /// Symbols of the step's module by those of the program's.
  llvm::DenseMap<mlir::StringAttr, mlir::FlatSymbolRefAttr> renamed;
};

} // namespace fcdp
