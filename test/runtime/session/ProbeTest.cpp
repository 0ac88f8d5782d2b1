// SPDX-License-Identifier: Apache-2.0
//
// The cluster that fcdp-run derives from measured times.
#include "probe/LinkFit.h"
#include "probe/ProbedCluster.h"
#include "profile/OverRanks.h"
#include "profile/RankTraces.h"

#include <algorithm>
#include <gtest/gtest.h>

using namespace fcdp;
using namespace fcdp::run;

TEST(LinkFit, FindsLatencyAndBandwidth) {
  std::vector<TimedSize> times;
  for (double bytes : {1e3, 4e3, 1e5, 1e7})
    times.push_back({bytes, 2e-4 + bytes / 5e8});
  LinkFigures link = fitLink(times);
  EXPECT_NEAR(link.latency, 2e-4, 1e-9);
  EXPECT_NEAR(link.bandwidth, 5e8, 1e2);
  // One size that took long counts by how much longer it took, not by how long.
  times.push_back({1e7, 2e-4 + 1.1 * 1e7 / 5e8});
  link = fitLink(times);
  EXPECT_NEAR(link.latency, 2e-4, 1e-5);
  EXPECT_NEAR(link.bandwidth, 5e8, 5e7);
}

TEST(LinkFit, StaysALinkInNoise) {
  // Without latency, and faster than in proportion.
  LinkFigures link = fitLink({{1e3, 1e-6}, {1e6, 2e-3}});
  EXPECT_EQ(link.latency, 0);
  EXPECT_GT(link.bandwidth, 1e6 / 2e-3 / 2);
  EXPECT_LT(link.bandwidth, 2 * 1e3 / 1e-6);
  // A larger size that is no slower, and a single one.
  link = fitLink({{1e3, 2e-3}, {1e6, 1e-3}});
  EXPECT_EQ(link.latency, 0);
  EXPECT_DOUBLE_EQ(link.bandwidth, 1e9);
  link = fitLink({{1e6, 1e-3}});
  EXPECT_EQ(link.latency, 0);
  EXPECT_DOUBLE_EQ(link.bandwidth, 1e9);
}

TEST(LinkFit, LeavesOutWhatAShaperLetsThrough) {
  // 25 MB/s once 50 kB have gone through at 1 GB/s.
  std::vector<TimedSize> times;
  for (double bytes = 1 << 10; bytes <= 1 << 22; bytes *= 4)
    times.push_back(
        {bytes, 1e-4 + bytes / 1e9 + std::max(0.0, bytes - 50e3) / 25e6});
  LinkFigures link = fitLink(times);
  EXPECT_NEAR(link.bandwidth, 25e6, 0.1 * 25e6);
  EXPECT_LT(link.latency, 1e-3);
}

TEST(LinkFit, TellsWhoSharesALink) {
  EXPECT_EQ(countSharers(1, 1), 1u);
  EXPECT_EQ(countSharers(9, 1), 1u);
  // Nobody is faster when all are at work.
  EXPECT_EQ(countSharers(0.7, 8), 1u);
  EXPECT_EQ(countSharers(1.3, 8), 1u);
  EXPECT_EQ(countSharers(1.6, 8), 2u);
  EXPECT_EQ(countSharers(4.4, 8), 4u);
  EXPECT_EQ(countSharers(7, 8), 8u);
  EXPECT_EQ(countSharers(20, 8), 8u);
  // A domain's size divides the number of a node's ranks.
  EXPECT_EQ(countSharers(4, 6), 3u);
  EXPECT_EQ(countSharers(5, 6), 6u);
}

TEST(OverRanks, TakesTheLastOfAGroupAndTheSlowestGroup) {
  Mesh mesh{2, 3};
  std::vector<double> seconds = {1, 2, 3, 40, 50, 6};
  // Groups {1, 40}, {2, 50}, {3, 6}, and {1, 2, 3}, {40, 50, 6}.
  EXPECT_EQ(secondsOverRanks(mesh, Axis::Node, seconds), 3);
  EXPECT_EQ(secondsOverRanks(mesh, Axis::Local, seconds), 6);
  EXPECT_EQ(secondsOverRanks(mesh, Axis::World, seconds), 1);
  EXPECT_DOUBLE_EQ(secondsOverRanks(mesh, std::nullopt, seconds), 17);
}

TEST(OverRanks, Medians) {
  EXPECT_EQ(medianOf({3, 1, 2}), 2);
  EXPECT_EQ(medianOf({4, 1, 3, 2}), 2.5);
  EXPECT_EQ(medianOf({7}), 7);
}

TEST(RankTraces, AreOfAllRanksOrOfSome) {
  EXPECT_EQ(chooseTraced(1, 0, 10), (std::vector<uint32_t>{0}));
  EXPECT_EQ(chooseTraced(4, 3, 10), (std::vector<uint32_t>{0, 1, 2, 3}));
  // A million spans at most, the slowest rank among them.
  EXPECT_EQ(chooseTraced(64, 5, 1 << 18),
            (std::vector<uint32_t>{0, 5, 16, 32}));
  EXPECT_EQ(chooseTraced(64, 0, 1 << 18),
            (std::vector<uint32_t>{0, 16, 32, 48}));
  EXPECT_EQ(chooseTraced(64, 63, 1 << 22), (std::vector<uint32_t>{0, 63}));
}

TEST(ProbedCluster, DescribesLinksOfNodesAndRanks) {
  ProbedCluster cluster;
  cluster.mesh = {2, 4};
  cluster.deviceMemory = 1'000'000'001;
  cluster.hostMemory = 4'000'000'004;
  cluster.memoryBandwidth = 1e10;
  cluster.f64 = 1e9;
  cluster.f32 = 2e9;
  cluster.bf16 = 3e9;
  cluster.f16 = 4e9;
  cluster.launchLatency = 1e-6;
  cluster.inter = SharedLink{{5e-5, 1e8}, 4};
  cluster.intra = SharedLink{{2e-5, 3e8}, 1};
  cluster.h2d = {{1e-6, 5e9}, 2};
  cluster.d2h = {{1e-6, 4e9}, 1};
  cluster.codecRate = 1e9;
  // A rank sends 1 of 2 parts, and 3 of 4.
  cluster.overNodes.gathers = {{1024, 1e-4}, {4096, 2e-4}};
  // A burst, and what lasts.
  cluster.overNodes.reductions = {{1024, 1e-6}, {4096, 4e-4}};
  cluster.overLocals.gathers = {{3072, 1e-5}};
  cluster.overLocals.reductions = {{3072, 2e-5}};
  EXPECT_EQ(
      toYaml(cluster),
      R"(# Measured by fcdp-run --probe-cluster, with all ranks at work at once.
name: probed
nodes: 2
ranks_per_node: 4
device:
  memory: 1000000001
  memory_bandwidth: 1e+10
  flops:
    f64: 1e+09
    f32: 2e+09
    bf16: 3e+09
    f16: 4e+09
  compute_efficiency: 1
  memory_efficiency: 1
  launch_latency: 1e-06
host:
  memory: 4000000004
inter:
  bandwidth: 4e+08
  latency: 5e-05
  sharing: node
intra:
  bandwidth: 3e+08
  latency: 2e-05
  sharing: rank
h2d:
  bandwidth: 1e+10
  latency: 1e-06
  sharing: switch
  ranks_per_switch: 2
d2h:
  bandwidth: 4e+09
  latency: 1e-06
  sharing: rank
collectives: # rows of [bytes, nodes, bytes per second of a rank]
  node:
    all_gather:
      - [2048, 2, 1.024e+07]
      - [8192, 2, 2.048e+07]
    reduce_scatter:
      - [8192, 2, 1.024e+07]
  local:
    all_gather:
      - [4096, 1, 3.072e+08]
    reduce_scatter:
      - [4096, 1, 1.536e+08]
codec:
  rate: 1e+09
spread:
  products: 0.03
  memory: 0.03
  launch: 0.1
  inter: 0.05
  inter_latency: 0.1
  intra: 0.05
  intra_latency: 0.1
  copies: 0.05
  codec: 0.05
)");
  cluster.mesh = {1, 1};
  cluster.inter.reset();
  cluster.intra.reset();
  cluster.overNodes = cluster.overLocals = {};
  cluster.h2d.sharers = 1;
  std::string text = toYaml(cluster);
  EXPECT_NE(text.find("inter: # not measured: there is one node\n"
                      "  bandwidth: 5e+09\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("intra: # not measured: a node has one rank\n"),
            std::string::npos)
      << text;
  EXPECT_EQ(text.find("collectives"), std::string::npos) << text;
}
