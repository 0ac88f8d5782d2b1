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

/// Parses `adamw`, `adamw8bit`, `sgd`, `lion`, `muon` or `adafactor`, followed
/// by `,name=value` with PyTorch's names: adamw and adamw8bit have lr, beta1,
/// beta2, eps and weight_decay, sgd has lr, momentum, dampening, weight_decay
/// and nesterov (0 or 1), lion has lr, beta1, beta2 and weight_decay, muon has
/// lr, weight_decay, momentum, nesterov, ns_a, ns_b and ns_c (the
/// ns_coefficients), eps, ns_steps and adjust_lr_fn, adafactor has lr,
/// beta2_decay, eps1, eps2, d and weight_decay. After muon or adafactor, a `+`
/// and another optimizer may follow, for the parameters that the first does not
/// update. The default after muon is adamw; adafactor updates all parameters
/// that groups leave to it. Adamw updates the parameters that adamw8bit does
/// not, with the same settings. Omitted settings have the defaults of PyTorch,
/// or of Lion's authors. An error names the bad part and the accepted values.
llvm::Expected<OptimizerSpec> parseOptimizers(llvm::StringRef spec,
                                              mlir::MLIRContext *context);

} // namespace fcdp
