// SPDX-License-Identifier: Apache-2.0
//
// Attention by documents, under a mask.
#pragma once

#include "dialects/Aten/Aten.h"

namespace fcdp {

/// Replaces each call of the runtime's attention by documents in `step`, and of
/// its backward pass, by the CPU's attention under the mask that stands for the
/// same. Calls that are not as fcdp.export writes them fail, with a diagnostic.
mlir::LogicalResult maskPackedAttention(mlir::Operation *step);

} // namespace fcdp
