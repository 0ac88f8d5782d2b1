// SPDX-License-Identifier: Apache-2.0
//
// What a model reads and gives as symbols of the module.
#pragma once

#include "Extras.h"
#include "Program.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"

namespace fcdp::pt2 {

/// A parameter of PyTorch with all its names.
struct Parameter {
  mlir::FlatSymbolRefAttr symbol;
  mlir::RankedTensorType type;
  /// Root first; more than one if tied.
  std::vector<llvm::StringRef> names;
};

/// The graph's inputs and outputs resolved to symbols.
struct Declarations {
  struct Input {
    InputSpec::Kind kind;
    mlir::FlatSymbolRefAttr symbol;
    mlir::RankedTensorType type;
  };
  /// By name in the graph, in the signature's order.
  std::vector<std::pair<llvm::StringRef, Input>> inputs;
  /// In PyTorch's order.
  std::vector<Parameter> parameters;
  /// Graph value of the gradient, by name of the parameter.
  llvm::DenseMap<llvm::StringRef, llvm::StringRef> gradients;
  /// By PyTorch name.
  llvm::DenseMap<llvm::StringRef,
                 std::pair<mlir::FlatSymbolRefAttr, mlir::RankedTensorType>>
      buffers;
};

/// Adds fcdp.parameter, fcdp.buffer and fcdp.input at `builder`'s place.
llvm::Expected<Declarations> declare(const Program &program,
                                     const Extras &extras,
                                     mlir::Location location,
                                     mlir::OpBuilder &builder);

} // namespace fcdp::pt2
