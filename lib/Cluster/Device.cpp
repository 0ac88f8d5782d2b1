// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Cluster/Device.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/ErrorHandling.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace fcdp;

/// Efficiency of attention relative to other products, used if a description
/// does not give it. Attention is slower because its products are thin and the
/// softmax is between them.
static constexpr double kAttentionShare = 0.4;
static constexpr double kNarrowHead = 64;

namespace {
/// The part of a result that one processor computes at a time.
struct Tile {
  double m, n;
  /// The rate relative to that of the largest tile. A smaller tile loads more
  /// operands for each operation.
  double efficiency;
};
} // namespace

/// The tiles of cuBLAS for tensor cores (NVIDIA, "Matrix Multiplication
/// Background User's Guide", with its figure of the efficiency of tiles).
static constexpr Tile kTiles[] = {{256, 128, 1},   {128, 256, 1},
                                  {128, 128, 0.9}, {128, 64, 0.75},
                                  {64, 128, 0.75}, {64, 64, 0.55}};
/// A product with few tiles is split along k, so that all processors work. The
/// parts are summed in float32.
static constexpr double kSplits[] = {1, 2, 4, 8, 16};
static constexpr double kPartBytes = 4;

double FlopRates::get(RateType type) const {
  switch (type) {
  case RateType::f64:
    return f64;
  case RateType::f32:
    return f32;
  case RateType::bf16:
    return bf16;
  case RateType::f16:
    return f16;
  }
  llvm_unreachable("unknown type");
}

double Device::getMemoryTime(double bytes) const {
  double share = memoryCurve.empty() ? memoryEfficiency
                                     : memoryCurve.read(std::max(bytes, 1.0));
  return bytes / (memoryBandwidth * share);
}

double Device::getTimePerByte() const {
  double share =
      memoryCurve.empty() ? memoryEfficiency : memoryCurve.points.back().rate;
  return 1 / (memoryBandwidth * share);
}

/// Returns the bytes of an operand's element.
static double countBytes(RateType type) {
  switch (type) {
  case RateType::f64:
    return 8;
  case RateType::f32:
    return 4;
  case RateType::bf16:
  case RateType::f16:
    return 2;
  }
  llvm_unreachable("unknown type");
}

/// Returns the seconds of `products` in `tile`s, whose k is split into `split`
/// parts. Processors that have finished the tiles of one product continue with
/// those of the next.
static double timeInTiles(const Device &device, double rate,
                          llvm::ArrayRef<Product> products, const Tile &tile,
                          double split) {
  auto processors = static_cast<double>(device.processors);
  double tiles = 0, work = 0, longest = 0, sum = 0;
  for (const Product &product : products) {
    double count = product.batch * std::ceil(product.m / tile.m) *
                   std::ceil(product.n / tile.n) * split;
    double each = 2 * tile.m * tile.n * std::ceil(product.k / split) /
                  (rate * tile.efficiency / processors);
    tiles += count;
    work += count * each;
    longest = std::max(longest, each);
    if (split > 1)
      sum += device.getMemoryTime((split + 1) * kPartBytes * product.batch *
                                  product.m * product.n);
  }
  return std::max(std::ceil(tiles / processors) * (work / tiles), longest) +
         sum;
}

/// Returns the seconds of the arithmetic at `rate` operations per second.
static double timeArithmetic(const Device &device, double rate,
                             llvm::ArrayRef<Product> products) {
  if (device.processors == 0) {
    double flops = 0;
    for (const Product &product : products)
      flops += product.getFlops();
    return flops / rate;
  }
  double least = std::numeric_limits<double>::infinity();
  for (const Tile &tile : kTiles)
    for (double split : kSplits)
      least = std::min(least, timeInTiles(device, rate, products, tile, split));
  return least;
}

/// Returns the seconds of products. A kernel loads operands while it computes,
/// so the longer of the two counts (the roofline of Williams, Waterman and
/// Patterson, 2009).
static double estimateProducts(const Device &device, RateType type,
                               llvm::ArrayRef<Product> products, double bytes) {
  double rate = device.flops.get(type) * device.computeEfficiency;
  return std::max(timeArithmetic(device, rate, products),
                  device.getMemoryTime(bytes));
}

/// Returns the squared distance of two shapes in logarithms.
static double findDistance(const Product &a, const Product &b) {
  auto square = [](double x, double y) {
    double difference = std::log2(x / y);
    return difference * difference;
  };
  return square(a.batch, b.batch) + square(a.m, b.m) + square(a.n, b.n) +
         square(a.k, b.k);
}

/// The power of the squared distance by which a measured product loses weight.
/// Shapes have 4 dimensions, so with a power up to 2 far products would
/// outweigh near ones. With 3, predicting each of the 35 products that a probe
/// of an H200 measured in bf16 from the others is wrong by a factor of 1.19
/// (the geometric mean); with 1, by 1.57.
static constexpr double kDistancePower = 3;

/// Returns the factor by which products of this shape take longer than
/// estimated. It is the mean of the factors of measured products, each weighted
/// by the inverse of a power of its distance (Shepard, "A two-dimensional
/// interpolation function for irregularly-spaced data", 1968).
static double findCorrection(const Device &device, RateType type,
                             const Product &product) {
  double sum = 0, weights = 0;
  for (const MeasuredProduct &measured : device.products) {
    if (measured.type != type)
      continue;
    const Product &shape = measured.shape;
    double estimate = estimateProducts(
        device, type, shape,
        countBytes(type) * shape.batch *
            (shape.m * shape.k + shape.k * shape.n + shape.m * shape.n));
    double correction = std::log(shape.getFlops() / measured.flops / estimate);
    double distance = findDistance(product, shape);
    if (distance == 0)
      return std::exp(correction);
    double weight = std::pow(distance, -kDistancePower);
    sum += correction * weight;
    weights += weight;
  }
  return weights == 0 ? 1 : std::exp(sum / weights);
}

double Device::getProductTime(RateType type, const Product &product,
                              double bytes) const {
  return estimateProducts(*this, type, product, bytes) *
         findCorrection(*this, type, product);
}

/// Returns the products of the groups that are not empty; the first is not.
static llvm::SmallVector<Product>
divideAmongGroups(const GroupedProduct &grouped) {
  auto groups = static_cast<unsigned>(grouped.mean.batch);
  double shares = 0;
  for (unsigned i = 1; i <= groups; ++i)
    shares += std::pow(i, -grouped.skew);
  double whole = grouped.mean.batch * grouped.mean.*grouped.divided;
  llvm::SmallVector<Product> products;
  for (unsigned i = 1; i <= groups; ++i) {
    Product product = grouped.mean;
    product.batch = 1;
    product.*grouped.divided =
        std::max(std::round(whole * std::pow(i, -grouped.skew) / shares),
                 i == 1 ? 1.0 : 0.0);
    if (product.*grouped.divided > 0)
      products.push_back(product);
  }
  return products;
}

double Device::getGroupedTime(RateType type, const GroupedProduct &products,
                              double bytes) const {
  if (products.skew == 0)
    return getProductTime(type, products.mean, bytes);
  return estimateProducts(*this, type, divideAmongGroups(products), bytes) *
         findCorrection(*this, type, products.mean);
}

/// Returns the quantile of the standard normal distribution for probability `p`
/// of at least 1/2, within 4.5e-4 (Abramowitz and Stegun, 26.2.23).
static double findNormalQuantile(double p) {
  double t = std::sqrt(-2 * std::log(1 - p));
  return t - (2.515517 + t * (0.802853 + t * 0.010328)) /
                 (1 + t * (1.432788 + t * (0.189269 + t * 0.001308)));
}

double Device::getSlowestFactor(int64_t devices) const {
  if (devices <= 1)
    return 1;
  auto n = static_cast<double>(devices);
  return 1 + variation * findNormalQuantile((n - 0.375) / (n + 0.25));
}

double Device::getAttentionTime(RateType type, double attentionFlops,
                                const AttentionWork &work) const {
  const RateCurve &curve =
      work.isBackward ? attention.backward : attention.forward;
  double share = curve.empty() ? kAttentionShare * computeEfficiency
                               : curve.read(work.keys);
  if (work.isMasked)
    share *= attention.masked;
  if (work.head <= kNarrowHead)
    share *= attention.narrow;
  return attentionFlops / (flops.get(type) * share);
}
