// SPDX-License-Identifier: Apache-2.0
//
// The orthogonalization of Muon, with the arithmetic of torch.optim.Muon.
#pragma once

#include "plan/Plan_generated.h"

#include <ATen/core/Tensor.h>

namespace fcdp {

/// The bytes of memory that a matrix takes while it is orthogonalized.
int64_t orthogonalizeBytes(int64_t rows, int64_t columns);

/// Writes to `out` the orthogonalization of `matrix`, which may be `out`, in
/// its type: Newton-Schulz iterations in bf16 on a matrix of norm 1. `scratch`
/// has at least orthogonalizeBytes bytes, at an address that is a multiple of
/// 64.
void orthogonalize(const at::Tensor &out, const at::Tensor &matrix,
                   const plan::MuonT &muon, const at::Tensor &scratch);

/// The factor of the learning rate for a matrix of this shape.
double adjustedRate(const plan::MuonT &muon, at::IntArrayRef shape);

} // namespace fcdp
