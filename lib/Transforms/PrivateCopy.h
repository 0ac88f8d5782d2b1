// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mlir/IR/BuiltinOps.h"

namespace fcdp {

/// A copy of a module in a context of its own. Passes that try something on it
/// print no remarks and no errors.
class PrivateCopy {
public:
  explicit PrivateCopy(mlir::ModuleOp module);

  mlir::ModuleOp get() const { return *copy; }

private:
  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> copy;
};

} // namespace fcdp
