// SPDX-License-Identifier: Apache-2.0
//
// A second program over a step's parameters.
#pragma once

#include "mlir/IR/BuiltinOps.h"

namespace fcdp {

/// Adds the loss that `evaluation` computes to the step `module` as a function
/// @evaluate, without gradients and with inputs of its own. Both are imported.
/// Parameters are the same by name, as are buffers of equal types, and, if they
/// are not persistent, of equal values. Emits an error that names both archives
/// if the evaluation has a parameter of another type or one that the step
/// lacks, or a persistent buffer of another type, or changes a buffer; then
/// `module` is of no use.
mlir::LogicalResult addEvaluation(mlir::ModuleOp module,
                                  mlir::ModuleOp evaluation);

/// Turns a step into an evaluation of frozen parameters, beside a step that
/// does nothing: gradients are dropped. Emits an error if it changes a buffer.
mlir::LogicalResult evaluateAlone(mlir::ModuleOp module);

} // namespace fcdp
