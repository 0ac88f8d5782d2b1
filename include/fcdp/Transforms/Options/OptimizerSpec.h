// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mlir/IR/Attributes.h"
#include "llvm/Support/Error.h"

namespace fcdp {

/// The optimizers of a step, each an OptimizerAttrInterface.
struct OptimizerSpec {
  /// The optimizer whose learning rate is the job's.
  mlir::Attribute first;
  /// The optimizer of parameters that `first` does not update. It equals
  /// `first` if that updates all.
  mlir::Attribute rest;
};

/// Parses an optimizer's name, followed by `,name=value` with PyTorch's names.
/// FcdpOptimizers.td has names, settings and defaults. After an optimizer that
/// does not update all parameters, a `+` and another optimizer may follow, for
/// the other parameters; its record has the default. An error names the bad
/// part and the accepted values.
llvm::Expected<OptimizerSpec> parseOptimizers(llvm::StringRef spec,
                                              mlir::MLIRContext *context);

} // namespace fcdp
