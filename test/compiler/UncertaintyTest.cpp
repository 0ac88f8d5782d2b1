// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Simulation/Uncertainty.h"

#include "fcdp/Cluster/CollectiveCost.h"
#include "fcdp/Cluster/ScaledCluster.h"
#include "gtest/gtest.h"

#include <cmath>
#include <tuple>

using namespace fcdp;

namespace {
constexpr double kNinetieth = 1.2816;

Cluster load() { return llvm::cantFail(loadCluster("h100")); }

/// The seconds of one piece of work for each input.
std::array<double, kNumCostInputs> timeAll(const Cluster &cluster) {
  const Device &device = cluster.device;
  std::array<double, kNumCostInputs> seconds{};
  auto set = [&](CostInput input, double time) {
    seconds[static_cast<unsigned>(input)] = time;
  };
  set(CostInput::products,
      device.getProductTime(RateType::bf16, {1, 4096, 4096, 4096}, 1));
  AttentionWork work;
  work.keys = 2048;
  set(CostInput::attention,
      device.getAttentionTime(RateType::bf16, 1e12, work));
  set(CostInput::memory, device.getMemoryTime(1e9));
  set(CostInput::launch, device.launchLatency);
  set(CostInput::issue, cluster.host.issue.op);
  TransferCost inter =
      costOfTransfer(cluster, cluster.links[LinkId::Inter], 1e9);
  TransferCost intra =
      costOfTransfer(cluster, cluster.links[LinkId::Intra], 1e9);
  set(CostInput::inter, inter.seconds);
  set(CostInput::interLatency, inter.latency);
  set(CostInput::intra, intra.seconds);
  set(CostInput::intraLatency, intra.latency);
  set(CostInput::copies,
      costOfTransfer(cluster, cluster.links[LinkId::H2D], 1e9).getTotal() +
          costOfTransfer(cluster, cluster.links[LinkId::D2H], 1e9).getTotal() +
          cluster.getHostMemoryTime(1e9));
  set(CostInput::messages, 1e9 / cluster.messages.rate);
  set(CostInput::profile,
      cluster.profile->operators.lookup("op") +
          cluster.profile->operations.at("cast").front().seconds);
  return seconds;
}

ScenarioTimes makeTimes(double nominal) {
  ScenarioTimes times;
  times.nominal = nominal;
  times.slower.fill(nominal);
  times.faster.fill(nominal);
  return times;
}

void set(ScenarioTimes &times, CostInput input, double slower, double faster) {
  times.slower[static_cast<unsigned>(input)] = slower;
  times.faster[static_cast<unsigned>(input)] = faster;
}

/// The spread of a model that leaves out nothing.
Spread makeExact() {
  Spread spread;
  spread.model = spread.strategies = 0;
  return spread;
}
} // namespace

TEST(ScaledCluster, ScalesOneInput) {
  Cluster cluster = load();
  cluster.device.attention = {}; // derived from products
  cluster.device.launchLatency = 1e-6;
  cluster.host.issue.op = cluster.host.issue.view = 1e-6;
  cluster.host.issue.transfer = cluster.host.issue.step = 1e-6;
  Profile profile;
  profile.operators["op"] = 1;
  profile.operations["cast"] = {{1, 1}};
  cluster.profile = std::make_shared<Profile>(profile);
  std::array<double, kNumCostInputs> nominal = timeAll(cluster);
  for (CostInput input : getCostInputs()) {
    EXPECT_TRUE(isUsed(cluster, input));
    auto times = timeAll(scaled(cluster, input, 2));
    for (CostInput other : getCostInputs()) {
      auto i = static_cast<unsigned>(other);
      EXPECT_NEAR(times[i], nominal[i] / (other == input ? 2 : 1),
                  1e-9 * nominal[i])
          << stringifyCostInput(other).str() << " if "
          << stringifyCostInput(input).str() << " is twice as fast";
    }
  }
}

TEST(ScaledCluster, ScalesMeasuredCollectives) {
  Cluster cluster = load();
  cluster.nodes = 2;
  cluster.links[LinkId::Intra].bandwidth =
      1e15; // does not limit what the network does
  cluster.collectives = {};
  cluster.collectives.ranksPerNode = cluster.ranksPerNode;
  cluster.collectives.node.allGather.set(2, 1e9, 1e9);
  cluster.collectives.local.allGather.set(1, 1e9, 1e9);
  auto time = [](const Cluster &cluster, RankSet set) {
    int64_t ranks = set == RankSet::node ? cluster.nodes : cluster.ranksPerNode;
    return costOfMeasured(cluster, set, CollectiveKind::allGather, ranks,
                          1e9 / static_cast<double>(ranks))
        ->getTotal();
  };
  for (auto [input, own, other] :
       {std::tuple(CostInput::inter, RankSet::node, RankSet::local),
        std::tuple(CostInput::intra, RankSet::local, RankSet::node)}) {
    Cluster fast = scaled(cluster, input, 2);
    EXPECT_NEAR(time(fast, own), time(cluster, own) / 2, 1e-9);
    EXPECT_NEAR(time(fast, other), time(cluster, other), 1e-9);
  }
}

TEST(ScaledCluster, KnowsWhatIsUnused) {
  Cluster cluster = load();
  cluster.nodes = cluster.ranksPerNode = 1;
  cluster.host.issue = {};
  for (CostInput input :
       {CostInput::inter, CostInput::interLatency, CostInput::intra,
        CostInput::intraLatency, CostInput::messages, CostInput::issue,
        CostInput::profile})
    EXPECT_FALSE(isUsed(cluster, input)) << stringifyCostInput(input).str();
}

TEST(Uncertainty, RunsScenariosOfTheInputsThatAreUncertain) {
  Cluster cluster = load();
  cluster.spread.inputs.fill(0);
  cluster.spread.inputs[static_cast<unsigned>(CostInput::inter)] = std::log(2);
  int runs = 0;
  ScenarioTimes times = runScenarios(
      cluster, getCostInputs(), 1,
      [&](const Cluster &scenario, CostInput input, double factor) {
        ++runs;
        EXPECT_EQ(input, CostInput::inter);
        EXPECT_DOUBLE_EQ(scenario.links[LinkId::Inter].bandwidth,
                         factor * cluster.links[LinkId::Inter].bandwidth);
        return 1 / factor;
      });
  EXPECT_EQ(runs, 2);
  ScenarioTimes expected = makeTimes(1);
  set(expected, CostInput::inter, 2, 0.5);
  for (unsigned i = 0; i < kNumCostInputs; ++i) {
    EXPECT_DOUBLE_EQ(times.slower[i], expected.slower[i]);
    EXPECT_DOUBLE_EQ(times.faster[i], expected.faster[i]);
  }
}

TEST(Uncertainty, RangesAddInQuadrature) {
  ScenarioTimes times = makeTimes(2);
  // A link that is hidden matters only if it gets slower.
  set(times, CostInput::inter, 2 * std::exp(0.3), 2);
  set(times, CostInput::products, 2 * std::exp(0.4), 2 * std::exp(-0.4));
  Range range = findRange(times, makeExact());
  EXPECT_NEAR(range.high, 2 * std::exp(kNinetieth * 0.5), 1e-9);
  EXPECT_NEAR(range.low, 2 * std::exp(-kNinetieth * 0.4), 1e-9);
}

TEST(Uncertainty, TheModelHasASpreadOfItsOwn) {
  Spread spread = makeExact();
  spread.model = 0.1;
  Range range = findRange(makeTimes(1), spread);
  EXPECT_NEAR(range.high, std::exp(kNinetieth * 0.1), 1e-9);
  EXPECT_NEAR(range.low, std::exp(-kNinetieth * 0.1), 1e-9);
  EXPECT_EQ(findRange(makeTimes(0), spread).high, 0);
}

TEST(Uncertainty, TheMeanCountsWhatOneSideCosts) {
  ScenarioTimes times = makeTimes(1);
  set(times, CostInput::inter, 1.5, 1);
  set(times, CostInput::products, 1.2, 0.8);
  EXPECT_NEAR(findMean(times), 1.25, 1e-12);
  // Strategies bear the host's issue alike.
  set(times, CostInput::issue, 3, 1);
  EXPECT_NEAR(findMean(times), 1.25, 1e-12);
}

TEST(Uncertainty, WhatSlowsBothDownTellsNothing) {
  ScenarioTimes times = makeTimes(2), others = makeTimes(1);
  set(times, CostInput::products, 3, 1);
  set(others, CostInput::products, 1.5, 0.5);
  TimeRatio ratio = compareTimes(times, others, makeExact());
  EXPECT_NEAR(ratio.nominal, 2, 1e-12);
  EXPECT_NEAR(ratio.range.low, 2, 1e-12);
  EXPECT_NEAR(ratio.range.high, 2, 1e-12);
  EXPECT_TRUE(ratio.isCertain());
}

TEST(Uncertainty, AStepThatIsFasterInSomeScenariosOnlyIsNotTold) {
  ScenarioTimes times = makeTimes(1.05), others = makeTimes(1);
  EXPECT_TRUE(compareTimes(times, others, makeExact()).isCertain());
  EXPECT_TRUE(compareTimes(others, times, makeExact()).isCertain());
  // The other one needs the network.
  set(others, CostInput::inter, 1.1, 0.9);
  EXPECT_FALSE(compareTimes(times, others, makeExact()).isCertain());
  EXPECT_FALSE(compareTimes(others, times, makeExact()).isCertain());
}

TEST(Uncertainty, ADifferenceWithinTheModelsErrorIsNotTold) {
  Spread spread = makeExact();
  spread.strategies = 0.05;
  EXPECT_FALSE(compareTimes(makeTimes(1.05), makeTimes(1), spread).isCertain());
  EXPECT_TRUE(compareTimes(makeTimes(1.1), makeTimes(1), spread).isCertain());
}
