// SPDX-License-Identifier: Apache-2.0
#include "probe/ProbeProducts.h"

#include "probe/TryWork.h"

#include <ATen/ops/bmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>

namespace fcdp::probe {

/// The seconds of a product after which no larger one is tried.
static constexpr double kLongProduct = 5e-3;
/// The side of a square divided by the few rows, columns or summands of a thin
/// product. It gives the products of a small micro-batch, and the two products
/// of a LoRA adapter.
static constexpr int64_t kThinness = 16;
/// The number of products in one call, as for the experts of a mixture, and the
/// divisor of their side.
static constexpr int64_t kBatch = 16, kBatchDivisor = 4;

namespace {
/// `batch` products of m x k by k x n.
struct Shape {
  int64_t m, n, k;
  int64_t batch = 1;
};
} // namespace

std::string whyNoProducts(c10::Device device, DType type) {
  return tryWork([&] {
    at::Tensor matrix =
        makeRandomMatrix(device, type, kLeastRowsOfGpu, kLeastRowsOfGpu);
    at::mm(matrix, matrix);
  });
}

static ProbedProduct measureProduct(c10::Device device, DType type,
                                    const Shape &shape, const DeviceTimer &time,
                                    const Work &before, double gap) {
  auto [m, n, k, batch] = shape;
  at::Tensor left = makeRandomMatrix(device, type, batch * m, k),
             right = makeRandomMatrix(device, type, batch * k, n),
             out = at::empty({batch * m, n}, left.options());
  if (batch > 1) {
    left = left.view({batch, m, k});
    right = right.view({batch, k, n});
    out = out.view({batch, m, n});
  }
  double seconds = timeEach(time, before, 2, [&] {
    batch > 1 ? at::bmm_out(out, left, right) : at::mm_out(out, left, right);
  });
  ProbedProduct product{type, m, n, k, 0, batch};
  product.flops = product.operations() / withoutGap(seconds, gap);
  return product;
}

std::vector<ProbedProduct> measureProducts(c10::Device device, DType type,
                                           const ProductSides &sides,
                                           const DeviceTimer &time,
                                           const Work &before, double gap) {
  std::vector<ProbedProduct> products;
  for (int64_t side = sides.least; side <= sides.most; side *= sides.growth) {
    int64_t thin = side / kThinness;
    // The square is the last, because its time decides whether to continue.
    int64_t part = side / kBatchDivisor;
    for (const Shape &shape :
         {Shape{thin, side, side}, Shape{side, thin, side},
          Shape{side, side, thin}, Shape{part, part, part, kBatch},
          Shape{side, side, side}})
      products.push_back(
          measureProduct(device, type, shape, time, before, gap));
    if (products.back().seconds() > kLongProduct)
      break;
  }
  return products;
}

} // namespace fcdp::probe
