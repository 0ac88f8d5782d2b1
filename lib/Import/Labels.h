// SPDX-License-Identifier: Apache-2.0
//
// Where a node comes from: its label as an MLIR location.
#pragma once

#include "Program.h"

#include "mlir/IR/Location.h"

namespace fcdp::pt2 {

/// `"module.path"("file.py":12:0)`, the parts that are known.
class Labels {
public:
  explicit Labels(mlir::MLIRContext *context) : context(context) {}
  mlir::Location get(const Node &node);

private:
  mlir::Location parse(llvm::StringRef label) const;

  mlir::MLIRContext *context;
  /// A module's nodes share few labels.
  llvm::DenseMap<llvm::StringRef, mlir::LocationAttr> cache;
};

} // namespace fcdp::pt2
