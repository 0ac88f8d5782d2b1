// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Cluster/Device.h"
#include "fcdp/Cluster/Cluster.h"

#include "gtest/gtest.h"

using namespace fcdp;

namespace {
/// 100 processors with 1e9 operations per second each, at full efficiency.
/// Memory limits nothing.
Device makeDevice() {
  Device device;
  device.memoryBandwidth = 1e30;
  device.flops = {1e11, 1e11, 1e11, 1e11};
  device.computeEfficiency = device.memoryEfficiency = 1;
  device.processors = 100;
  return device;
}

double timeOf(const Device &device, const Product &product, double bytes = 0) {
  return device.getProductTime(RateType::bf16, product, bytes);
}
} // namespace

TEST(RateCurve, JoinsPointsInLogarithms) {
  RateCurve curve{{{10, 1}, {1000, 4}}};
  EXPECT_DOUBLE_EQ(curve.read(1), 1);
  EXPECT_DOUBLE_EQ(curve.read(10), 1);
  EXPECT_NEAR(curve.read(100), 2, 1e-12);
  EXPECT_DOUBLE_EQ(curve.read(1000), 4);
  EXPECT_DOUBLE_EQ(curve.read(1e9), 4);
}

TEST(Device, TilesFillProcessors) {
  Device device = makeDevice();
  // 10 x 10 tiles of 128 x 256: one each.
  Product full{1, 1280, 2560, 1024};
  EXPECT_DOUBLE_EQ(timeOf(device, full), full.getFlops() / 1e11);
  // Without processors, all shapes reach the same rate.
  device.processors = 0;
  Product odd{1, 1281, 2560, 1024};
  EXPECT_DOUBLE_EQ(timeOf(device, odd), odd.getFlops() / 1e11);
}

TEST(Device, GroupsOfUnequalSizesFillTilesDifferently) {
  Device device = makeDevice();
  // 4 groups of 3 x 4 tiles of 128 x 256. The skewed ones have 576, 288, 192
  // and 144 rows, which are 5, 3, 2 and 2 rows of tiles: as many.
  Product mean{4, 300, 1024, 512};
  auto timeOf = [&](double Product::*divided, double skew) {
    return device.getGroupedTime(RateType::bf16, {mean, divided, skew}, 0);
  };
  double balanced = device.getProductTime(RateType::bf16, mean, 0);
  EXPECT_DOUBLE_EQ(timeOf(&Product::m, 0), balanced);
  EXPECT_DOUBLE_EQ(timeOf(&Product::m, 1), balanced);
  // 843, 211, 94 and 53 rows are 7, 2, 1 and 1 rows of tiles.
  device.processors = 1;
  double tile = 2.0 * 128 * 256 * 512 / 1e11;
  EXPECT_DOUBLE_EQ(timeOf(&Product::m, 0), 48 * tile);
  EXPECT_DOUBLE_EQ(timeOf(&Product::m, 2), 44 * tile);
  device.processors = 0;
  EXPECT_DOUBLE_EQ(timeOf(&Product::m, 1), mean.getFlops() / 1e11);
}

TEST(Device, TheLongestSumOfAGroupLimitsItsKernel) {
  Device device = makeDevice();
  // One tile each; the sums are 4, 2, 4/3 and 1 times 96 elements of 800.
  device.memoryBandwidth = 1; // splitting a sum takes for ever
  Product mean{4, 64, 64, 200};
  EXPECT_DOUBLE_EQ(
      device.getGroupedTime(RateType::bf16, {mean, &Product::k, 1}, 0),
      2.0 * 64 * 64 * 384 / (0.55 * 1e9));
  // A group that gets nothing has no product.
  mean.k = 1;
  EXPECT_DOUBLE_EQ(
      device.getGroupedTime(RateType::bf16, {mean, &Product::k, 2}, 0),
      2.0 * 64 * 64 * 3 / (0.55 * 1e9));
}

TEST(Device, AProductOfFewTilesTakesLongerPerOperation) {
  Device device = makeDevice();
  // 11 x 10 tiles of 128 x 256 are two rounds. In eight parts along k they are
  // 9 rounds of an eighth, and to sum the parts takes no time here.
  Product odd{1, 1281, 2560, 1024};
  EXPECT_DOUBLE_EQ(timeOf(device, odd), 9 * 2.0 * 128 * 256 * 128 / 1e9);
  // If it takes long, smaller tiles are faster: 11 x 20 of 128 x 128 are three
  // rounds, at 0.9 of the rate.
  device.memoryBandwidth = 1e9;
  EXPECT_DOUBLE_EQ(timeOf(device, odd),
                   3 * 2.0 * 128 * 128 * 1024 / (0.9 * 1e9));
  device.memoryBandwidth = 1e30;
  // A batch of products fills them, too.
  Product batch{25, 512, 256, 64};
  EXPECT_DOUBLE_EQ(timeOf(device, batch), batch.getFlops() / 1e11);
  // One small product is a single tile, split along k into 16 parts.
  Product small{1, 64, 64, 1600};
  EXPECT_DOUBLE_EQ(timeOf(device, small), 2.0 * 64 * 64 * 100 / (0.55 * 1e9));
}

TEST(Device, MemoryBoundsProducts) {
  Device device = makeDevice();
  device.memoryBandwidth = 1e9;
  EXPECT_DOUBLE_EQ(timeOf(device, {1, 1280, 2560, 1}, 5e9), 5);
}

TEST(Device, MeasuredProductsCorrectTheirNeighbours) {
  Device device = makeDevice();
  Product shape{1, 1280, 2560, 1024}, tall{1, 128000, 2560, 1024};
  device.products = {{RateType::bf16, shape, 0.5e11}};
  EXPECT_DOUBLE_EQ(timeOf(device, shape), 2 * shape.getFlops() / 1e11);
  EXPECT_NEAR(timeOf(device, tall), 2 * tall.getFlops() / 1e11, 1e-9);
  // Another type has its own.
  EXPECT_DOUBLE_EQ(device.getProductTime(RateType::f32, shape, 0),
                   shape.getFlops() / 1e11);
  // Between two, the nearer one counts more.
  device.products.push_back({RateType::bf16, tall, 1e11});
  Product near{1, 2560, 2560, 1024};
  double ratio = timeOf(device, near) * 1e11 / near.getFlops();
  EXPECT_GT(ratio, 1.8);
  EXPECT_LT(ratio, 2);
}

// Times of one H200 in a training step, for shapes that its probe lacks.
TEST(Device, ProductsOfATrainingStepOnAnH200) {
  auto cluster =
      loadCluster(FCDP_SOURCE_DIR "/benchmarks/gpu/measured/h200.yaml");
  ASSERT_TRUE(bool(cluster)) << toString(cluster.takeError());
  const std::pair<Product, double> measured[] = {
      {{1, 8192, 5632, 2048}, 244.4e-6},   {{1, 8192, 2048, 5632}, 239.9e-6},
      {{1, 5632, 2048, 8192}, 258.6e-6},   {{1, 8192, 2048, 2048}, 95.5e-6},
      {{1, 8192, 32000, 2048}, 1355.8e-6}, {{1, 2048, 2048, 8192}, 90.4e-6}};
  for (auto [shape, seconds] : measured) {
    double bytes =
        2 * (shape.m * shape.k + shape.k * shape.n + shape.m * shape.n);
    EXPECT_NEAR(cluster->device.getProductTime(RateType::bf16, shape, bytes) /
                    seconds,
                1, 0.12)
        << shape.m << " x " << shape.n << " x " << shape.k;
  }
}

TEST(Device, MemoryByTheSizeOfAnOperator) {
  Device device = makeDevice();
  device.memoryBandwidth = 1e9;
  device.memoryEfficiency = 0.5;
  EXPECT_DOUBLE_EQ(device.getMemoryTime(1e6), 2e-3);
  device.memoryCurve.points = {{1e6, 0.25}, {1e8, 0.8}};
  EXPECT_DOUBLE_EQ(device.getMemoryTime(1e6), 4e-3);
  EXPECT_DOUBLE_EQ(device.getMemoryTime(0), 0);
  EXPECT_DOUBLE_EQ(device.getTimePerByte(), 1 / 0.8e9);
}

TEST(Device, AttentionByKeysAndKernel) {
  Device device = makeDevice();
  device.attention.forward.points = {{512, 0.25}, {2048, 0.5}};
  device.attention.masked = 0.5;
  auto timeOfAttention = [&](const AttentionWork &work) {
    return device.getAttentionTime(RateType::bf16, 1e11, work);
  };
  EXPECT_DOUBLE_EQ(timeOfAttention({512, 128, false, false}), 4);
  EXPECT_DOUBLE_EQ(timeOfAttention({4096, 128, false, false}), 2);
  EXPECT_DOUBLE_EQ(timeOfAttention({4096, 128, false, true}), 4);
  device.attention.narrow = 0.8;
  EXPECT_DOUBLE_EQ(timeOfAttention({4096, 64, false, false}), 2.5);
  EXPECT_DOUBLE_EQ(timeOfAttention({4096, 96, false, false}), 2);
  device.attention.narrow = 1;
  // Without a curve, a share of what other products reach.
  EXPECT_DOUBLE_EQ(timeOfAttention({4096, 128, true, false}), 2.5);
}

TEST(Device, AStepWaitsForTheSlowest) {
  Device device = makeDevice();
  EXPECT_DOUBLE_EQ(device.getSlowestFactor(512), 1);
  device.variation = 0.1;
  EXPECT_DOUBLE_EQ(device.getSlowestFactor(1), 1);
  // The expected greatest of 2, 10 and 100 normal values is 0.5642, 1.5388 and
  // 2.5076 (Harter, "Expected Values of Normal Order Statistics", 1961).
  EXPECT_NEAR(device.getSlowestFactor(2), 1.0564, 0.003);
  EXPECT_NEAR(device.getSlowestFactor(10), 1.1539, 0.003);
  EXPECT_NEAR(device.getSlowestFactor(100), 1.2508, 0.003);
}

TEST(Device, AMeasuredProductThatMemoryBoundsIsItself) {
  Device device = makeDevice();
  device.memoryBandwidth = 1e9;
  // One row times a matrix, whose 4 bytes an element take 4 ms.
  Product row{1, 1, 1000, 1000};
  double bytes = 4 * (1000 + 1000 * 1000 + 1000);
  device.products = {{RateType::f32, row, row.getFlops() / 1e-2}};
  EXPECT_DOUBLE_EQ(device.getProductTime(RateType::f32, row, bytes), 1e-2);
}
