// SPDX-License-Identifier: Apache-2.0
//
// The attention of a step that was exported on a CPU, on CUDA.
#pragma once

#include "dialects/Aten/Aten.h"

namespace fcdp {

/// Replaces each call of the CPU's attention in `step`, and of its backward
/// pass, by the kernel that PyTorch chooses on a GPU of that compute capability
/// (flash, cuDNN's or memory-efficient), and prepares the operands for it.
/// Results keep their elements and their order in memory. Fails, with
/// diagnostics, if a GPU of that compute capability has no such kernel.
mlir::LogicalResult retargetAttention(mlir::Operation *step,
                                      double computeCapability);

} // namespace fcdp
