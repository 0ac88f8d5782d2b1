// SPDX-License-Identifier: Apache-2.0
#include "probe/ProbeProducts.h"

#include "operators/TorchTypes.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>

namespace fcdp::run {

/// No larger product is tried of one that takes longer.
static constexpr double kLongProduct = 5e-3;
/// A product of few rows, as a small micro-batch has.
static constexpr int64_t kThinness = 16;

at::Tensor makeRandomMatrix(c10::Device device, DType type, int64_t rows,
                            int64_t columns) {
  auto options = at::TensorOptions(toScalarType(type)).device(device);
  return at::empty({rows, columns}, options).normal_();
}

static ProbedProduct measureProduct(c10::Device device, DType type, int64_t m,
                                    int64_t side, const DeviceTimer &time,
                                    const Work &before) {
  at::Tensor left = makeRandomMatrix(device, type, m, side),
             right = makeRandomMatrix(device, type, side, side),
             out = at::empty({m, side}, left.options());
  double seconds =
      timeEach(time, before, 2, [&] { at::mm_out(out, left, right); });
  return {type, m, side, side,
          2.0 * double(m) * double(side) * double(side) / seconds};
}

std::vector<ProbedProduct> measureProducts(c10::Device device, DType type,
                                           const DeviceTimer &time,
                                           const Work &before) {
  std::vector<ProbedProduct> products;
  for (int64_t rows = kLeastRowsOfGpu; rows <= kMostRowsOfGpu; rows *= 2) {
    products.push_back(
        measureProduct(device, type, rows / kThinness, rows, time, before));
    products.push_back(measureProduct(device, type, rows, rows, time, before));
    if (products.back().seconds() > kLongProduct)
      break;
  }
  return products;
}

} // namespace fcdp::run
