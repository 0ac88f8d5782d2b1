// SPDX-License-Identifier: Apache-2.0
#include "operators/NewtonSchulz.h"

#include <ATen/ops/addmm.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/mm.h>
#include <algorithm>
#include <cmath>
#include <utility>

namespace fcdp {

namespace {

/// Elements are placed at multiples of 64 bytes.
int64_t placeBytes(int64_t elements) {
  constexpr int64_t alignment = 64, bf16 = 2;
  return (elements * bf16 + alignment - 1) / alignment * alignment;
}

/// Takes matrices in bf16 from the scratch memory, one after another.
class Places {
public:
  explicit Places(at::Tensor memory) : memory(std::move(memory)) {}

  at::Tensor take(at::IntArrayRef shape) {
    int64_t elements = c10::multiply_integers(shape);
    at::Tensor place =
        memory.narrow(0, offset, 2 * elements).view(at::kBFloat16).view(shape);
    offset += placeBytes(elements);
    return place;
  }

private:
  at::Tensor memory;
  int64_t offset = 0;
};

} // namespace

int64_t orthogonalizeBytes(int64_t rows, int64_t columns) {
  int64_t least = std::min(rows, columns);
  if (least == 0)
    return 0;
  return 2 * placeBytes(rows * columns) + 2 * placeBytes(least * least) +
         placeBytes(1);
}

void orthogonalize(const at::Tensor &out, const at::Tensor &matrix,
                   const plan::MuonT &muon, const at::Tensor &scratch) {
  int64_t rows = matrix.size(0), columns = matrix.size(1);
  int64_t least = std::min(rows, columns), most = std::max(rows, columns);
  Places places(scratch);
  // Shapes and strides are those of PyTorch, whose products depend on them: a
  // tall matrix is at first the transpose of what is in memory.
  at::Tensor x = places.take({rows, columns});
  at::Tensor next = places.take({least, most});
  at::Tensor gram = places.take({least, least});
  at::Tensor polynomial = places.take({least, least});
  at::Tensor norm = places.take({1}).view(at::IntArrayRef());
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
