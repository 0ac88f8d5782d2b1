// SPDX-License-Identifier: Apache-2.0
//
// Replaces the attention of a step that was exported on a CPU by CUDA's.
#pragma once

#include "dialects/Aten/Aten.h"

namespace fcdp {

/// Replaces each call of the CPU's attention in `step`, and each call of its
/// backward pass, by the kernel that PyTorch chooses on a GPU of that compute
/// capability (flash, cuDNN's or memory-efficient), and adapts the operands.
/// Results keep their elements and their layout in memory. Fails, with
/// diagnostics, if a GPU of that compute capability has no such kernel.
mlir::LogicalResult retargetAttention(mlir::Operation *step,
                                      double computeCapability);

} // namespace fcdp
