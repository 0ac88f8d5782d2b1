// SPDX-License-Identifier: Apache-2.0
//
// Reads the labels that fcdp.export puts on nodes.
#pragma once

#include "Program.h"

#include "mlir/IR/Location.h"

#include <optional>

namespace fcdp::pt2 {

struct Label {
  /// `"module.path"("file.py":12:0)`, without the parts that are unknown.
  mlir::LocationAttr location;
  /// The number of the part of the model that torch.utils.checkpoint runs, if
  /// the node is in one.
  std::optional<int64_t> checkpointRegion;
};

class Labels {
public:
  explicit Labels(mlir::MLIRContext *context) : context(context) {}
  const Label &get(const Node &node);

private:
  Label parse(llvm::StringRef label) const;

  mlir::MLIRContext *context;
  /// Parsed labels. Few labels are distinct, so each is read once.
  llvm::DenseMap<llvm::StringRef, Label> cache;
};

} // namespace fcdp::pt2
