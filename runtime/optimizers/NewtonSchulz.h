// SPDX-License-Identifier: Apache-2.0
//
// Implements the orthogonalization of Muon, with the arithmetic of
// torch.optim.Muon.
#pragma once

#include "plan/Plan_generated.h"

#include <ATen/core/Tensor.h>

namespace fcdp {

/// Returns the bytes of scratch memory for orthogonalizing a matrix.
int64_t orthogonalizeBytes(int64_t rows, int64_t columns);

/// Writes the orthogonalization of `matrix` to `out`, which may be `matrix`, in
/// its type. It makes Newton-Schulz iterations in bf16 on a matrix of norm 1.
/// `scratch` has at least orthogonalizeBytes bytes, at an address that is a
/// multiple of 64.
void orthogonalize(const at::Tensor &out, const at::Tensor &matrix,
                   const plan::MuonT &muon, const at::Tensor &scratch);

/// Returns the factor on the learning rate for a matrix of this shape.
double adjustedRate(const plan::MuonT &muon, at::IntArrayRef shape);

} // namespace fcdp
