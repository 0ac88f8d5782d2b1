// SPDX-License-Identifier: Apache-2.0
//
// The attention of a step that was exported on a CPU, on CUDA.
#pragma once

#include "dialects/Aten/Aten.h"

namespace fcdp {

/// Replaces each call of the CPU's attention in `step`, and of its backward
/// pass, by PyTorch's flash or memory-efficient kernel for CUDA with what it
/// asks of its operands. What reads a result finds its elements, and their
/// order in memory, as they were. Fails, with diagnostics, where CUDA has no
/// such kernel.
mlir::LogicalResult retargetAttention(mlir::Operation *step);

} // namespace fcdp
