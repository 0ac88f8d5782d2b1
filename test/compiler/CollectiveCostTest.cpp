// SPDX-License-Identifier: Apache-2.0
//
// Compares the formulas with measurements of the FCDP paper (arXiv 2602.06499)
// and with each other.

#include "fcdp/Cluster/CollectiveCost.h"

#include "gtest/gtest.h"
#include <algorithm>

using namespace fcdp;

namespace {
Cluster load(llvm::StringRef name, int64_t nodes) {
  Cluster cluster = llvm::cantFail(loadCluster(name));
  cluster.nodes = nodes;
  llvm::cantFail(cluster.check());
  return cluster;
}

/// Returns the bytes that leave a node, from the time on its single link.
double interBytes(const Cluster &cluster, double seconds) {
  return seconds * cluster.links[LinkId::Inter].bandwidth;
}

constexpr double kWhole = 16e9;
/// Parameters of the paper's GPT-10B, in fp16.
constexpr double kGpt10B = 2 * 11.30e9;
/// Samples per step: 8 on each of 16 GPUs.
constexpr double kSamples = 128;

/// Returns the time on the link between nodes of a collective in two levels.
double secondsOfTwoLevels(const Cluster &cluster, double partBytes) {
  return costOfDirect(cluster, cluster.links[LinkId::Inter], cluster.nodes,
                      partBytes)
      .seconds;
}

double total(const FlatCost &cost) {
  return cost.latency + std::max(cost.inter, cost.intra);
}

/// Returns the time of a ZeRO-3 step that only communicates: two gathers and a
/// reduction.
double zero3(const Cluster &cluster) {
  return 3 * total(costOfFlatRing(cluster, kGpt10B / cluster.getWorldSize()));
}
} // namespace

TEST(CollectiveCost, TransferOf16GB) {
  // Two nodes of 8. Each node gathers the half that the other one has.
  for (auto [name, seconds] :
       {std::pair("a40-rdma", 0.949), std::pair("a40-ipoib", 3.963),
        std::pair("a40-10gbe", 6.745), std::pair("a40-1gbe", 67.66)}) {
    Cluster cluster = load(name, 2);
    EXPECT_NEAR(secondsOfTwoLevels(cluster, kWhole / 16), seconds,
                0.005 * seconds)
        << name;
  }
  Cluster cluster = load("a40-rdma", 2);
  EXPECT_NEAR(
      costOfTransfer(cluster, cluster.links[LinkId::H2D], kWhole / 8).seconds,
      0.613, 0.005 * 0.613);
}

TEST(CollectiveCost, Zero3OnSlowNetworks) {
  EXPECT_NEAR(kSamples / zero3(load("a40-ipoib", 2)), 4.1, 0.03 * 4.1);
  EXPECT_NEAR(kSamples / zero3(load("a40-10gbe", 2)), 2.4, 0.03 * 2.4);
}

TEST(CollectiveCost, BytesThatLeaveANode) {
  for (int64_t nodes : {2, 4}) {
    Cluster cluster = load("a40-ipoib", nodes);
    double ranks = cluster.getWorldSize(), part = kWhole / ranks;
    EXPECT_DOUBLE_EQ(interBytes(cluster, costOfFlatRing(cluster, part).inter),
                     (ranks - 1) / ranks * kWhole);
    EXPECT_DOUBLE_EQ(interBytes(cluster, costOfFlatDirect(cluster, part).inter),
                     8.0 * (nodes - 1) / nodes * kWhole);
    EXPECT_DOUBLE_EQ(interBytes(cluster, secondsOfTwoLevels(cluster, part)),
                     (nodes - 1.0) / nodes * kWhole);
  }
  // On 2 nodes of 8, two levels are 15/8 times as fast.
  Cluster cluster = load("a40-ipoib", 2);
  EXPECT_DOUBLE_EQ(costOfFlatRing(cluster, 1e9).inter /
                       secondsOfTwoLevels(cluster, 1e9),
                   1.875);
}

TEST(CollectiveCost, LinksOfRanksAndSwitches) {
  Cluster cluster = load("a40-ipoib", 2);
  double shared =
      costOfDirect(cluster, cluster.links[LinkId::Inter], 2, 1e9).seconds;
  cluster.links[LinkId::Inter].sharing = Sharing::switched;
  cluster.links[LinkId::Inter].ranksPerSwitch = 4;
  EXPECT_DOUBLE_EQ(
      costOfDirect(cluster, cluster.links[LinkId::Inter], 2, 1e9).seconds,
      shared / 2);
  cluster.links[LinkId::Inter].sharing = Sharing::rank;
  EXPECT_DOUBLE_EQ(
      costOfDirect(cluster, cluster.links[LinkId::Inter], 2, 1e9).seconds,
      shared / 8);
}

TEST(CollectiveCost, Latency) {
  Cluster cluster = load("a40-rdma", 2);
  cluster.links[LinkId::Inter].latency = 10;
  cluster.links[LinkId::Intra].latency = 1;
  EXPECT_EQ(costOfDirect(cluster, cluster.links[LinkId::Inter], 2, 1).latency,
            10);
  // 15 steps, one of them to the other node.
  EXPECT_EQ(costOfFlatRing(cluster, 1).latency, 24);
  EXPECT_EQ(costOfFlatDirect(cluster, 1).latency, 10);
}

TEST(CollectiveCost, SocketsOfANode) {
  Cluster cluster = load("a40-10gbe", 1);
  EXPECT_EQ(costOfSockets(cluster, 8, /*isRing=*/false, kWhole / 8), 0);
  cluster.host.numaNodes = 2;
  cluster.host.socketBandwidth = 20e9;
  // Four ranks send four of eight parts each.
  EXPECT_DOUBLE_EQ(costOfSockets(cluster, 8, /*isRing=*/false, kWhole / 8),
                   2 * kWhole / 20e9);
  EXPECT_DOUBLE_EQ(costOfSockets(cluster, 8, /*isRing=*/true, kWhole / 8),
                   7.0 / 8 * kWhole / 20e9);
  EXPECT_EQ(costOfSockets(cluster, 1, /*isRing=*/false, kWhole), 0);
}

TEST(CollectiveCost, NothingForOneRank) {
  Cluster cluster = load("a40-rdma", 1);
  cluster.ranksPerNode = 1;
  EXPECT_EQ(
      costOfDirect(cluster, cluster.links[LinkId::Inter], 1, 1e9).getTotal(),
      0);
  EXPECT_EQ(total(costOfFlatRing(cluster, 1e9)), 0);
  EXPECT_EQ(total(costOfFlatDirect(cluster, 1e9)), 0);
  EXPECT_EQ(costOfSum(cluster.device, 1, 1e9), 0);
}

TEST(CollectiveCost, FlatRingWithinANodeIsTheDirectVolume) {
  Cluster cluster = load("a40-rdma", 1);
  FlatCost ring = costOfFlatRing(cluster, 1e9);
  EXPECT_EQ(ring.inter, 0);
  EXPECT_DOUBLE_EQ(
      ring.intra,
      costOfDirect(cluster, cluster.links[LinkId::Intra], 8, 1e9).seconds);
}
