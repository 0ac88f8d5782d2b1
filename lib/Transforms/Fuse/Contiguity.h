// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mlir/IR/Value.h"
#include "llvm/ADT/DenseMap.h"

namespace fcdp {

/// Knows which values are contiguous tensors in every run. It errs on the side
/// of other layouts.
class Contiguity {
public:
  bool isContiguous(mlir::Value value);

private:
  bool compute(mlir::Value value);

  llvm::DenseMap<mlir::Value, bool> known;
};

} // namespace fcdp
