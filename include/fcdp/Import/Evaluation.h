// SPDX-License-Identifier: Apache-2.0
//
// Adds a second program over a step's parameters.
#pragma once

#include "mlir/IR/BuiltinOps.h"

namespace fcdp {

/// Adds the loss that `evaluation` computes to the step `module` as a function
/// @evaluate, without gradients and with inputs of its own. Both modules are in
/// phase imported. Parameters of one name are shared. So are buffers of one
/// name and type and, if they are not persistent, of equal values. Emits an
/// error that names both archives if the evaluation has a parameter of another
/// type or one that the step lacks, if it has a persistent buffer of another
/// type, or if it changes a buffer. After an error, `module` must not be used.
mlir::LogicalResult addEvaluation(mlir::ModuleOp module,
                                  mlir::ModuleOp evaluation);

/// Turns a step into an evaluation of frozen parameters, and adds a step that
/// does nothing. Gradients are dropped. Emits an error if it changes a buffer.
mlir::LogicalResult evaluateAlone(mlir::ModuleOp module);

} // namespace fcdp
