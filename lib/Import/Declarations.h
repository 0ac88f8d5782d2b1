// SPDX-License-Identifier: Apache-2.0
//
// Declares a model's parameters, buffers and inputs as symbols of the module.
#pragma once

#include "Extras.h"
#include "Program.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"

namespace fcdp::pt2 {

/// A PyTorch parameter with all its names.
struct Parameter {
  mlir::FlatSymbolRefAttr symbol;
  mlir::RankedTensorType type;
  /// All names, the root first. A tied parameter has more than one.
  std::vector<llvm::StringRef> names;
};

/// The graph's inputs and outputs, resolved to symbols.
struct Declarations {
  struct Input {
    InputSpec::Kind kind;
    mlir::FlatSymbolRefAttr symbol;
    mlir::RankedTensorType type;
  };
  /// Inputs with their names in the graph, in the signature's order.
  std::vector<std::pair<llvm::StringRef, Input>> inputs;
  /// Parameters in PyTorch's order.
  std::vector<Parameter> parameters;
  /// Graph value of each gradient, by parameter name.
  llvm::DenseMap<llvm::StringRef, llvm::StringRef> gradients;
  /// Buffers by PyTorch name.
  llvm::DenseMap<llvm::StringRef,
                 std::pair<mlir::FlatSymbolRefAttr, mlir::RankedTensorType>>
      buffers;
};

/// Adds fcdp.parameter, fcdp.buffer and fcdp.input operations at `builder`'s
/// insertion point.
llvm::Expected<Declarations> declare(const Program &program,
                                     const Extras &extras,
                                     mlir::Location location,
                                     mlir::OpBuilder &builder);

} // namespace fcdp::pt2
