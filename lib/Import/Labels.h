// SPDX-License-Identifier: Apache-2.0
//
// Converts the label of a node to an MLIR location.
#pragma once

#include "Program.h"

#include "mlir/IR/Location.h"

namespace fcdp::pt2 {

/// Returns the location `"module.path"("file.py":12:0)`, without the parts that
/// are unknown.
class Labels {
public:
  explicit Labels(mlir::MLIRContext *context) : context(context) {}
  mlir::Location get(const Node &node);

private:
  mlir::Location parse(llvm::StringRef label) const;

  mlir::MLIRContext *context;
  /// Few labels are distinct, so locations are cached by label.
  llvm::DenseMap<llvm::StringRef, mlir::LocationAttr> cache;
};

} // namespace fcdp::pt2
