// SPDX-License-Identifier: Apache-2.0
#include "optimizers/NewtonSchulz.h"

#include "optimizers/ScratchMemory.h"

#include <ATen/ops/addmm.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/mm.h>
#include <algorithm>
#include <cmath>
#include <utility>

namespace fcdp {

namespace {

constexpr int64_t kWidth = 2; // of bf16

} // namespace

int64_t orthogonalizeBytes(int64_t rows, int64_t columns) {
  int64_t least = std::min(rows, columns);
  if (least == 0)
    return 0;
  return 2 * placeBytes(rows * columns, kWidth) +
         2 * placeBytes(least * least, kWidth) + placeBytes(1, kWidth);
}

void orthogonalize(const at::Tensor &out, const at::Tensor &matrix,
                   const plan::MuonT &muon, const at::Tensor &scratch) {
  int64_t rows = matrix.size(0), columns = matrix.size(1);
  int64_t least = std::min(rows, columns), most = std::max(rows, columns);
  ScratchMemory memory(scratch);
  auto take = [&](at::IntArrayRef shape) {
    return memory.take(shape, at::kBFloat16);
  };
  // Shapes and strides are PyTorch's, because its products depend on them: a
  // tall matrix is first the transpose of the one in memory.
  at::Tensor x = take({rows, columns});
  at::Tensor next = take({least, most});
  at::Tensor gram = take({least, least});
  at::Tensor polynomial = take({least, least});
  at::Tensor norm = take({});
  x.copy_(matrix);
  bool isTall = rows > columns;
  if (isTall)
    x = x.t();
  at::linalg_vector_norm_out(norm, x, 2);
  x.div_(norm.clamp_min_(muon.eps));
  at::Tensor other = isTall ? x.t().view({least, most}) : x;
  for (uint32_t step = 0; step < muon.nsSteps; ++step) {
    at::mm_out(gram, x, x.t());
    at::addmm_out(polynomial, gram, gram, gram, muon.nsB, muon.nsC);
    at::addmm_out(next, x, polynomial, x, muon.nsA);
    x = std::exchange(next, other);
    other = x;
  }
  out.copy_(isTall ? x.t() : x);
}

double adjustedRate(const plan::MuonT &muon, at::IntArrayRef shape) {
  auto rows = double(shape[0]), columns = double(shape[1]);
  if (muon.adjustLrFn == plan::AdjustLr::match_rms_adamw)
    return 0.2 * std::sqrt(std::max(rows, columns));
  return std::sqrt(std::max(1.0, rows / columns));
}

} // namespace fcdp
