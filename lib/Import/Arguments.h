// SPDX-License-Identifier: Apache-2.0
//
// Arguments of a node as arguments of aten.call.
#pragma once

#include "Program.h"
#include "fcdp/Support/Json.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/DenseMap.h"

namespace fcdp::pt2 {

/// The graph's values that are defined so far.
using Values = llvm::DenseMap<llvm::StringRef, mlir::Value>;

/// The three lists that make up the arguments of an aten.call.
struct CallArguments {
  llvm::SmallVector<mlir::Value> operands;
  llvm::SmallVector<mlir::Attribute> names;
  llvm::SmallVector<mlir::Attribute> values;
};

/// `integers` as Program has them. Errors name the node and the argument.
llvm::Expected<CallArguments>
convertArguments(const Node &node, const Values &values,
                 const llvm::DenseMap<llvm::StringRef, int64_t> &integers,
                 mlir::Builder &builder);

} // namespace fcdp::pt2
