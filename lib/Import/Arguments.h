// SPDX-License-Identifier: Apache-2.0
//
// Converts the arguments of a graph node to arguments of aten.call.
#pragma once

#include "Program.h"
#include "fcdp/Support/Json.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/DenseMap.h"

namespace fcdp::pt2 {

/// The graph values that are defined so far, by name.
using Values = llvm::DenseMap<llvm::StringRef, mlir::Value>;

/// The three lists that form the arguments of an aten.call.
struct CallArguments {
  llvm::SmallVector<mlir::Value> operands;
  llvm::SmallVector<mlir::Attribute> names;
  llvm::SmallVector<mlir::Attribute> values;
};

/// Converts the arguments of `node`. `integers` are the Program's. Errors name
/// the node and the argument.
llvm::Expected<CallArguments>
convertArguments(const Node &node, const Values &values,
                 const llvm::DenseMap<llvm::StringRef, int64_t> &integers,
                 mlir::Builder &builder);

} // namespace fcdp::pt2
