// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Cluster/CollectiveCost.h"
#include "fcdp/Cluster/CostModel.h"

#include "gtest/gtest.h"

using namespace fcdp;

namespace {
constexpr auto kGather = CollectiveKind::allGather;
constexpr auto kReduce = CollectiveKind::reduceScatter;

/// Returns the preset with so many nodes and no tables.
Cluster load(int64_t nodes) {
  Cluster cluster = llvm::cantFail(loadCluster("a40-rdma"));
  cluster.nodes = nodes;
  cluster.collectives = {};
  cluster.collectives.ranksPerNode = cluster.ranksPerNode;
  return cluster;
}

double rate(const BusTable &table, double bytes, int64_t nodes) {
  auto found = table.read(bytes, nodes);
  EXPECT_TRUE(found.has_value());
  return found ? found->rate : 0;
}
} // namespace

TEST(BusTable, InterpolatesInLogarithms) {
  BusTable table;
  EXPECT_FALSE(table.read(1e6, 2));
  EXPECT_TRUE(table.set(2, 1e8, 4e9));
  EXPECT_TRUE(table.set(2, 1e6, 1e9));
  EXPECT_FALSE(table.set(2, 1e6, 1e9));
  EXPECT_TRUE(table.set(8, 1e6, 0.25e9));
  EXPECT_DOUBLE_EQ(rate(table, 1e6, 2), 1e9);
  EXPECT_DOUBLE_EQ(rate(table, 1e7, 2), 2e9);
  EXPECT_DOUBLE_EQ(rate(table, 1e9, 2), 4e9);
  EXPECT_DOUBLE_EQ(rate(table, 1e6, 4), 0.5e9);
  EXPECT_DOUBLE_EQ(rate(table, 1e6, 64), 0.25e9);
  EXPECT_DOUBLE_EQ(table.read(1e6, 4)->peak, 1e9);
}

TEST(BusTable, KeepsTheTimeOfTheSmallestSize) {
  BusTable table;
  table.set(2, 1e6, 1e9);
  table.set(2, 1e8, 4e9);
  EXPECT_DOUBLE_EQ(1e3 / rate(table, 1e3, 2), 1e6 / 1e9);
}

TEST(BusTable, OneNodeSaysNothingOfSeveral) {
  BusTable table;
  table.set(1, 1e6, 1e9);
  EXPECT_FALSE(table.read(1e6, 2));
  table.set(4, 1e6, 4e9);
  EXPECT_DOUBLE_EQ(rate(table, 1e6, 1), 1e9);
  EXPECT_DOUBLE_EQ(rate(table, 1e6, 2), 4e9);
}

TEST(CollectiveTables, OneNodeOfTheWorldIsLocal) {
  CollectiveTables tables;
  tables.ranksPerNode = 8;
  tables.world.allGather.set(1, 1e6, 7e9);
  EXPECT_DOUBLE_EQ(tables.read(RankSet::local, kGather, 1e6, 1)->rate, 7e9);
  EXPECT_FALSE(tables.read(RankSet::world, kGather, 1e6, 2));
  // Its own table comes first.
  tables.local.allGather.set(1, 1e6, 9e9);
  EXPECT_DOUBLE_EQ(tables.read(RankSet::local, kGather, 1e6, 1)->rate, 9e9);
  EXPECT_DOUBLE_EQ(tables.read(RankSet::world, kGather, 1e6, 1)->rate, 7e9);
  EXPECT_DOUBLE_EQ(tables.read(RankSet::local, kReduce, 1e6, 1)->rate, 9e9);
}

TEST(CollectiveTables, DerivesTheNodeAxisFromUplinks) {
  // Rings over 4 nodes of 8 send 31/32 of W out of a node at 16 GB/s.
  Cluster cluster = load(4);
  constexpr double kRate = 16e9, kPart = 1e8, kWhole = 32 * kPart;
  cluster.collectives.world.allGather.set(4, kWhole, kRate);
  auto flat = costOfMeasured(cluster, RankSet::world, kGather, 32, kPart);
  ASSERT_TRUE(flat);
  EXPECT_DOUBLE_EQ(flat->getTotal(), 31.0 / 32 * kWhole / kRate);
  // The 8 groups together send 3/4 of W out of it.
  auto node = costOfMeasured(cluster, RankSet::node, kGather, 4, kPart);
  ASSERT_TRUE(node);
  EXPECT_DOUBLE_EQ(node->getTotal(), 3.0 / 4 * kWhole / kRate);
  // A table of its own comes first.
  cluster.collectives.node.allGather.set(4, 4 * kPart, 3e9);
  EXPECT_DOUBLE_EQ(
      costOfMeasured(cluster, RankSet::node, kGather, 4, kPart)->getTotal(),
      3 * kPart / 3e9);
}

TEST(CollectiveTables, AUniformTableEqualsTwoNumbers) {
  Cluster cluster = load(4);
  CostModel without(cluster);
  double each = cluster.links[LinkId::Inter].bandwidth /
                cluster.getSharers(cluster.links[LinkId::Inter]);
  cluster.collectives.node.allGather.set(4, 1, each);
  cluster.links[LinkId::Inter].latency = 0;
  Cost expected = CostModel(load(4)).costOfGather(Axis::node, 4, 1e8);
  Cost found = CostModel(cluster).costOfGather(Axis::node, 4, 1e8);
  EXPECT_EQ(found.resource, Resource::inter);
  EXPECT_DOUBLE_EQ(found.seconds, expected.seconds);
  EXPECT_EQ(found.latency, 0);
  EXPECT_DOUBLE_EQ(found.deviceMemory, expected.deviceMemory);
}

TEST(CollectiveTables, WhatIsSlowerThanThePeakIsLatency) {
  Cluster cluster = load(2);
  BusTable &table = cluster.collectives.node.reduceScatter;
  table.set(2, 2e4, 1e8);
  table.set(2, 2e8, 1e10);
  CostModel model(cluster);
  Cost small = model.costOfReduction(Axis::node, 2, 1e4);
  EXPECT_DOUBLE_EQ(small.getTotal(), 1e4 / 1e8);
  EXPECT_DOUBLE_EQ(small.seconds, 1e4 / 1e10);
  Cost large = model.costOfReduction(Axis::node, 2, 1e8);
  // The measured time includes the sum.
  EXPECT_DOUBLE_EQ(large.getTotal(), 1e8 / 1e10);
  EXPECT_DOUBLE_EQ(model.costOfReduction(Axis::node, 2, 1).getTotal(),
                   1e4 / 1e8);
  EXPECT_EQ(model.costOfReduction(Axis::node, 2, 0).getTotal(), 0);
}

TEST(CollectiveTables, HoldForTheMeasuredRanksOfANode) {
  Cluster cluster = load(2);
  cluster.collectives.local.allGather.set(1, 1e6, 1);
  EXPECT_TRUE(costOfMeasured(cluster, RankSet::local, kGather, 8, 1e6));
  cluster.ranksPerNode = 4;
  EXPECT_FALSE(costOfMeasured(cluster, RankSet::local, kGather, 4, 1e6));
}

TEST(CollectiveTables, ChangeWithTheBandwidthBetweenNodes) {
  Cluster cluster = load(2);
  CollectiveTables &tables = cluster.collectives;
  tables.world.allGather.set(1, 1e9, 8e9);
  tables.world.allGather.set(2, 1e9, 4e9);
  tables.local.allGather.set(1, 1e9, 8e9);
  auto world = [&] { return CostModel(cluster).costOfFlatGather(1e9 / 16); };
  auto node = [&] {
    return CostModel(cluster).costOfGather(Axis::node, 2, 1e9 / 16).getTotal();
  };
  double flat = world().getTotal(), between = node();
  EXPECT_EQ(world().resource, Resource::inter);
  double given = cluster.links[LinkId::Inter].bandwidth;
  cluster.setInterBandwidth(given / 2);
  EXPECT_DOUBLE_EQ(world().getTotal(), 2 * flat);
  EXPECT_DOUBLE_EQ(node(), 2 * between);
  cluster.setInterBandwidth(8 * given);
  EXPECT_DOUBLE_EQ(node(), between / 8);
  // The ranks of a node are twice as fast, and no faster.
  EXPECT_DOUBLE_EQ(world().getTotal(), flat / 2);
  EXPECT_EQ(world().resource, Resource::intra);
  double local =
      CostModel(cluster).costOfGather(Axis::local, 8, 2e8).getTotal();
  EXPECT_DOUBLE_EQ(local, 7 * 2e8 / 8e9);
}

namespace {
/// Returns the preset's text with `lines` after it.
std::string withTables(const std::string &lines) {
  for (const ClusterPreset &preset : getClusterPresets())
    if (preset.name == "a40-rdma")
      return preset.yaml.str() + lines;
  return "";
}

/// Returns the error for these lines without its file and line, or an empty
/// string.
std::string complain(const std::string &lines) {
  auto cluster = parseCluster({withTables(lines), "c.yaml"});
  if (cluster)
    return "";
  std::string message = llvm::toString(cluster.takeError());
  EXPECT_TRUE(llvm::StringRef(message).starts_with("c.yaml:"));
  return llvm::StringRef(message).split("error: ").second.str();
}
} // namespace

TEST(CollectiveTables, AreReadFromADescription) {
  auto cluster = parseCluster({withTables(R"(collectives:
  world:
    all_gather: [[1e6, 1, 7e9], [1e6, 2, 5e9]]
  node: {reduce_scatter: [[1e6, 2, 1e9]]}
)"),
                               "c.yaml"});
  ASSERT_TRUE(static_cast<bool>(cluster))
      << llvm::toString(cluster.takeError());
  const CollectiveTables &tables = cluster->collectives;
  EXPECT_EQ(tables.ranksPerNode, cluster->ranksPerNode);
  EXPECT_EQ(rate(tables.world.allGather, 1e6, 1), 7e9);
  EXPECT_EQ(rate(tables.world.allGather, 1e6, 2), 5e9);
  EXPECT_EQ(rate(tables.node.reduceScatter, 1e6, 2), 1e9);
  EXPECT_TRUE(tables.world.reduceScatter.empty());
  EXPECT_TRUE(tables.local.empty());
}

TEST(CollectiveTables, RefuseBadRows) {
  auto complainOf = [](const std::string &set, const std::string &rows) {
    return complain("collectives: {" + set + ": {all_gather: " + rows + "}}\n");
  };
  EXPECT_EQ(complainOf("world", "[[1e6, 2]]"),
            "expected rows of 'world.all_gather' to be [bytes, nodes, bytes "
            "per second], got 2 numbers");
  EXPECT_EQ(complainOf("local", "[[1e6, 2, 1e9]]"),
            "expected the nodes of 'local.all_gather' to be 1, got 2");
  EXPECT_EQ(complainOf("node", "[[1e6, 1, 1e9]]"),
            "expected the nodes of 'node.all_gather' to be a whole number from "
            "2 to 2^31, got 1");
  EXPECT_EQ(complainOf("world", "[[1e6, 1.5, 1e9]]"),
            "expected the nodes of 'world.all_gather' to be a positive whole "
            "number below 2^31, got 1.5");
  EXPECT_EQ(complainOf("world", "[[1e6, 2, 1e9], [1000000, 2, 2e9]]"),
            "expected one row of 'world.all_gather' for 1000000 bytes and 2 "
            "nodes");
  EXPECT_EQ(complainOf("world", "[[1e6, 2, 0]]"),
            "expected a positive number, got '0'");
  EXPECT_EQ(complainOf("worlds", "[]"), "unknown key 'worlds'");
}
