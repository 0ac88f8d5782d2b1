// SPDX-License-Identifier: Apache-2.0
//
// Attention by documents, by CUDA's kernel for sequences of several lengths.
#pragma once

#include "dialects/Aten/Aten.h"

namespace fcdp {

/// Replaces each call of the runtime's attention by documents in `step`, and of
/// its backward pass, by the flash kernel over cumulative lengths, which are
/// computed on the device. Leaves calls that the kernel or the order of their
/// documents does not suit, for maskPackedAttention.
void flattenPackedAttention(mlir::Operation *step, double computeCapability);

} // namespace fcdp
