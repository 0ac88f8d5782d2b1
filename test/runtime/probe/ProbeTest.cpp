// SPDX-License-Identifier: Apache-2.0
//
// The cluster that fcdp-run derives from measured times.
#include "probe/LinkFit.h"
#include "probe/ProbeOperators.h"
#include "probe/ProbeSustained.h"
#include "probe/ProbedCluster.h"
#include "probe/Steady.h"
#include "session/OverRanks.h"

#include <ATen/record_function.h>
#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <set>

using namespace fcdp;
using namespace fcdp::probe;

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

TEST(LinkFit, KeepsTheTimeOfTheLargestSize) {
  // A small message met other load.
  LinkFigures link = fitLink({{1e3, 3.7e-3}, {6e4, 5.15e-3}, {5e5, 44.2e-3}});
  EXPECT_GT(link.latency, 0);
  EXPECT_NEAR(link.latency + 5e5 / link.bandwidth, 44.2e-3, 1e-9);
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
  EXPECT_EQ(secondsOverRanks(mesh, AxisId::Node, seconds), 3);
  EXPECT_EQ(secondsOverRanks(mesh, AxisId::Local, seconds), 6);
  EXPECT_EQ(secondsOverRanks(mesh, AxisId::World, seconds), 1);
  EXPECT_DOUBLE_EQ(secondsOverRanks(mesh, std::nullopt, seconds), 17);
}

TEST(OverRanks, Medians) {
  EXPECT_EQ(medianOf({3, 1, 2}), 2);
  EXPECT_EQ(medianOf({4, 1, 3, 2}), 2.5);
  EXPECT_EQ(medianOf({7}), 7);
}

namespace {

/// The operators that run, by name and the shapes and types of their tensors.
struct OperatorLog {
  std::set<std::string> uncounted, counted;
  bool isCounting = false;

  static OperatorLog *current;
  static std::unique_ptr<at::ObserverContext>
  record(const at::RecordFunction &function) {
    std::string text = function.name();
    for (const c10::IValue &value : function.inputs())
      if (value.isTensor())
        text += " " + c10::str(value.toTensor().sizes(),
                               value.toTensor().scalar_type());
    auto &log = *current;
    (log.isCounting ? log.counted : log.uncounted).insert(text);
    return nullptr;
  }
};
OperatorLog *OperatorLog::current = nullptr;

} // namespace

// CUDA loads a kernel when it runs for the first time.
TEST(ProbeOperators, RunEachWorkOnceBeforeItCounts) {
  OperatorLog log;
  OperatorLog::current = &log;
  auto handle = at::addThreadLocalCallback(
      at::RecordFunctionCallback(&OperatorLog::record).needsInputs(true));
  OperatorRates rates = measureOperators(
      at::kCPU, {DType::F64, DType::F32, DType::BF16, DType::F16},
      [&](const Work &before, const Work &work) {
        before();
        log.isCounting = true;
        work();
        log.isCounting = false;
        return 1.0; // so long that no larger product is tried
      },
      1 << 18);
  at::removeCallback(handle);
  // One addition, copies of two sizes, and products of five shapes and four
  // types.
  EXPECT_EQ(rates.products.size(), 20u);
  EXPECT_EQ(rates.curve.size(), 2u);
  EXPECT_GE(log.counted.size(), 23u);
  for (const std::string &work : log.counted)
    EXPECT_TRUE(log.uncounted.count(work)) << work;
}

TEST(ProbeOperators, FindRatesOfWhatTheyDo) {
  // Each measure takes a second: 100 additions, or 2 products.
  OperatorRates rates = measureOperators(
      at::kCPU, {DType::F64, DType::F32},
      [](const Work &, const Work &) { return 1.0; }, 1 << 16);
  EXPECT_DOUBLE_EQ(rates.launchLatency, 1.0 / 100);
  // The gap between two kernels is not a part of their times.
  EXPECT_DOUBLE_EQ(rates.best(DType::F32), 2.0 * 128 * 128 * 128 / 0.49);
  EXPECT_EQ(rates.best(DType::BF16), 0);
  // All shapes took the same time, so the square has the greatest rate.
  EXPECT_EQ(rates.largestOfFastest().m, 128);
  EXPECT_EQ(rates.products.size(), 10u);
  EXPECT_DOUBLE_EQ(rates.products[2].flops, 2.0 * 128 * 128 * 8 / 0.49);
  EXPECT_EQ(rates.products[3].batch, 16);
  EXPECT_DOUBLE_EQ(rates.products[3].flops, 16 * 2.0 * 32 * 32 * 32 / 0.49);
}

TEST(ProbeSustained, ComparesTheLastRoundsWithTheFirst) {
  // A product of half a second, so that there is one in each round.
  ProbedProduct product{DType::F32, 128, 128, 128, 2 * 2.0 * 128 * 128 * 128};
  int rounds = 0;
  SustainedFigures found =
      measureSustained(at::kCPU, product, 0.01, [&](const Work &work) {
        work();
        // Two of four devices become slow.
        double slow = ++rounds > 3 ? 1.01 : 0.51;
        return std::vector<double>{0.51, slow, 0.51, slow};
      });
  // 5 s of load.
  EXPECT_EQ(rounds, 8);
  EXPECT_DOUBLE_EQ(found.share, 0.5 / 0.75);
  EXPECT_NEAR(found.variation.value(), std::sqrt(4 * 0.0625 / 3) / 0.76, 1e-12);
}

TEST(ProbeSustained, TwoRanksSayLittleOfOthers) {
  EXPECT_FALSE(findVariation({1, 2, 3}));
  EXPECT_EQ(findVariation({2, 2, 2, 2}), 0);
}

TEST(ProbedCluster, DescribesGpus) {
  ProbedCluster cluster;
  cluster.mesh = {1, 1};
  ProbedGpuFacts &gpu = cluster.gpu.emplace();
  gpu.measured = "GPUs, today.";
  gpu.processors = 132;
  gpu.major = 8;
  gpu.minor = 6;
  gpu.context = 5;
  gpu.communicators = 6;
  gpu.workspace = 7;
  gpu.rates.products = {{DType::BF16, 8, 128, 64, 1e12},
                        {DType::BF16, 8, 8, 8, 1e11, 16}};
  // A cache is faster than the memory.
  gpu.rates.curve = {{65536, 1e11}, {1048576, 4e11}, {4194304, 2e11}};
  gpu.issue = {1e-6, 2e-6, 3e-6};
  gpu.attention = {
      DType::BF16, {{128, 2e11}, {256, 3e12}}, {{128, 1e11}}, 0.5, 1};
  gpu.sustained = {0.9, 0.01};
  gpu.missingTypes = {{DType::F16, "no kernel"}};
  cluster.bf16 = 1e12;
  cluster.f32 = 5e11;
  cluster.hostBandwidth = 4e11;
  std::string text = toYaml(cluster);
  for (const char *expected :
       {"# GPUs, today.\nname: probed\n",
        "  reserved:\n    context: 5\n    communicators: 6\n    workspace: 7\n",
        "  memory_curve: [[6.554e+04, 0.5], [1.049e+06, 1], [4.194e+06, 1]]\n",
        "    bf16: 1e+12\n    f16: 5e+11 # assumed as f32: not measured, as "
        "this "
        "GPU has no such products: no kernel\n",
        "    - {type: bf16, m: 8, n: 128, k: 64, flops: 1e+12}\n"
        "    - {type: bf16, batch: 16, m: 8, n: 8, k: 8, flops: 1e+11}\n"
        "  attention: # causal, heads of 128, in bf16\n"
        "    forward: [[128, 0.2], [256, 1]]\n    backward: [[128, 0.1]]\n"
        "    masked: 0.5\n    narrow: 1\n",
        "  sustained: 0.9\n  variation: 0.01\n",
        "  memory_bandwidth: 4e+11 # of copies in both directions at once\n",
        "  compute_capability: 8.6\n", "    transfer: 3e-06\n",
        "flat_collectives: ring\nspread:\n",
        "  issue: 0.1\n  attention: 0.05\n"})
    EXPECT_NE(text.find(expected), std::string::npos) << expected << text;
  EXPECT_EQ(text.find("codec"), std::string::npos) << text;
  gpu.attention.reset();
  gpu.whyNoAttention = "too old";
  text = toYaml(cluster);
  EXPECT_NE(text.find("  # attention is not measured, as this GPU has none: "
                      "too old\n"),
            std::string::npos)
      << text;
  EXPECT_EQ(text.find("attention:"), std::string::npos) << text;
}

/// Returns what takeSteady makes of these samples, and how many it has taken.
/// The last one goes on.
static std::pair<SteadyTime, size_t> steadyOf(std::vector<double> samples) {
  size_t taken = 0;
  SteadyTime time = takeSteady(
      [&] { return samples[std::min(taken++, samples.size() - 1)]; });
  return {time, taken};
}

TEST(Steady, StopsWhenSamplesAgree) {
  auto [time, taken] = steadyOf({1e-3, 1.01e-3, 0.99e-3, 1e-3, 5e-3});
  EXPECT_EQ(taken, 5u);
  EXPECT_EQ(time.seconds, 1e-3);
  EXPECT_LT(time.scatter, 0.02);
}

TEST(Steady, RepeatsWhatScatters) {
  // Another program takes the machine for a while.
  auto [time, taken] = steadyOf({1e-3, 2e-3, 3e-3, 2e-3, 1.5e-3, 1e-3});
  EXPECT_EQ(time.seconds, 1e-3);
  EXPECT_GT(taken, 8u);
  std::vector<double> wild;
  for (int i = 0; i < 40; ++i)
    wild.push_back(1e-3 * (1 + i % 5));
  std::tie(time, taken) = steadyOf(wild);
  EXPECT_EQ(taken, 15u);
  EXPECT_GT(time.scatter, 0.3);
}

TEST(Steady, TakesAtMostAsManyAsAllowed) {
  size_t taken = 0;
  const double samples[] = {1e-3, 2e-3, 3e-3};
  SteadyTime time = takeSteady([&] { return samples[taken++]; }, 2, 3);
  EXPECT_EQ(taken, 3u);
  EXPECT_EQ(time.seconds, 2e-3);
}

TEST(Steady, TakesFewLongSamples) {
  // Two slow first runs do not count, however long they are.
  auto [time, taken] = steadyOf({0.9, 0.8, 0.3, 0.2, 0.25});
  EXPECT_EQ(taken, 5u);
  EXPECT_EQ(time.seconds, 0.3);
  EXPECT_NEAR(time.scatter, 1.4826 * 0.1 / 0.3, 1e-12);
}

TEST(ProbedCluster, SaysWhatScattersAndWhichProductsACpuReaches) {
  ProbedCluster cluster;
  cluster.mesh = {1, 1};
  cluster.spread = {.products = 0.2, .inter = 9, .copies = 0.01};
  cluster.products = {{DType::F32, 8, 128, 64, 1e11}};
  cluster.memoryEfficiency = 0.5;
  cluster.sustained = 0.75;
  std::string text = toYaml(cluster);
  for (const char *expected :
       {"  products:\n    - {type: f32, m: 8, n: 128, k: 64, flops: 1e+11}\n  "
        "sustained: 0.75\n",
        "  memory_efficiency: 0.5\n",
        "spread:\n  products: 0.2\n  memory: 0.03\n", "  inter: 2\n",
        "  copies: 0.05\n"})
    EXPECT_NE(text.find(expected), std::string::npos) << expected << text;
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
  cluster.intra = SharedLink{{2e-5, 3e8}, 1, 0.25};
  cluster.h2d = {{1e-6, 5e9}, 2};
  cluster.d2h = {{1e-6, 4e9}, 1};
  cluster.rates = {{"codec", 1e9, 0, 0.05}};
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
  collective_share: 0.25
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
