// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Planning/Residency/ResidencyPlanning.h"

#include "gtest/gtest.h"

#include <random>

using namespace fcdp;

namespace {
using Bucket = ResidencyProblem::Bucket;
using Plan = std::vector<BucketResidency>;
constexpr int64_t kUnbounded = int64_t(1) << 60;

std::string check(const ResidencyProblem &problem) {
  return llvm::toString(problem.check());
}

/// Makes `layers` equal layers, forward and backward, on nodes of 4 ranks.
ResidencyProblem makeLayers(unsigned layers, double compute, double inter,
                            double hostLoad) {
  ResidencyProblem problem;
  problem.localRanks = 4;
  problem.deviceBudget = problem.hostBudget = kUnbounded;
  for (unsigned layer = 0; layer < layers; ++layer) {
    Bucket bucket;
    bucket.name = "layer" + std::to_string(layer);
    bucket.wholeBytes = 4000;
    bucket.sliceBytes = 1000;
    bucket.interGather = bucket.interReduce = {Resource::inter, 0, inter};
    bucket.intraGather = bucket.intraReduce = {Resource::intra, 0, inter / 10};
    bucket.hostLoad = {Resource::h2d, 0, hostLoad};
    bucket.hostStore = {Resource::d2h, 0, hostLoad};
    problem.buckets.push_back(bucket);
  }
  for (unsigned layer = 0; layer < layers; ++layer)
    problem.uses.push_back(
        {layer, 0, layer, compute, 100 * (layer + 1), {}, 0});
  for (unsigned layer = layers; layer-- > 0;)
    problem.uses.push_back({layer,
                            0,
                            2 * layers - 1 - layer,
                            2 * compute,
                            100 * (layer + 1),
                            {layer},
                            0});
  return problem;
}

Plan uniform(const ResidencyProblem &problem, Residency residency) {
  return Plan(problem.buckets.size(), {residency, residency});
}

/// Returns the best of all plans that give each bucket one residency and one of
/// its possible collectives.
std::optional<ResidencyEstimate>
searchExhaustively(const ResidencyProblem &problem) {
  std::optional<ResidencyEstimate> best;
  size_t count = problem.buckets.size();
  for (size_t code = 0; code < size_t(1) << 3 * count; ++code) {
    Plan plan;
    bool isOffered = true;
    for (size_t i = 0; i < count; ++i) {
      auto residency = static_cast<Residency>(code >> 2 * i & 3);
      auto collectives = static_cast<Collectives>(code >> (2 * count + i) & 1);
      isOffered &=
          llvm::is_contained(problem.buckets[i].collectives, collectives);
      plan.push_back({residency, residency, collectives});
    }
    if (!isOffered)
      continue;
    ResidencyEstimate taken = estimate(problem, plan);
    if (taken.deviceBytes <= problem.deviceBudget &&
        taken.hostBytes <= problem.hostBudget &&
        (!best || isBetter(taken, *best)))
      best = taken;
  }
  return best;
}

ResidencyProblem makeRandom(unsigned layers, std::mt19937 &random) {
  auto pick = [&](double from, double to) {
    return std::uniform_real_distribution<double>(from, to)(random);
  };
  ResidencyProblem problem = makeLayers(layers, 1, pick(0.2, 4), pick(0.05, 3));
  for (Bucket &bucket : problem.buckets) {
    double size = pick(0.2, 2);
    bucket.sliceBytes = int64_t(1000 * size);
    bucket.wholeBytes = 4 * bucket.sliceBytes;
    for (Cost *cost : {&bucket.interGather, &bucket.intraGather,
                       &bucket.hostLoad, &bucket.hostStore})
      cost->seconds *= size;
  }
  int64_t least =
      estimate(problem, uniform(problem, Residency::drop)).deviceBytes;
  int64_t most =
      estimate(problem, uniform(problem, Residency::full)).deviceBytes;
  problem.deviceBudget = least + int64_t(pick(0, 1) * double(most - least));
  problem.hostBudget = int64_t(pick(0, 4000.0 * layers));
  return problem;
}
} // namespace

// The gather of the first layer for the backward pass begins at 6 s, together
// with the reduction of the last layer, and ends at 7 s. After the reduction it
// would end at 9 s, and the step would take 13 s.
TEST(ResidencyEstimate, GathersDoNotQueueBehindReductions) {
  ResidencyProblem problem = makeLayers(3, 1, 0, 0);
  for (Bucket &bucket : problem.buckets) {
    bucket.interGather = {Resource::inter, /*latency=*/1, 0};
    bucket.interReduce = {Resource::inter, /*latency=*/2, 0};
    bucket.intraGather = bucket.intraReduce = {};
  }
  EXPECT_NEAR(estimate(problem, uniform(problem, Residency::drop)).seconds, 12,
              1e-9);
}

// The same gather and reduction in one step each.
TEST(ResidencyEstimate, FlatCollectivesAreOneStep) {
  ResidencyProblem problem = makeLayers(1, 1, 1, 0.5);
  problem.prefetch = 0;
  problem.buckets[0].flatGather = {Resource::inter, 0, 1.5};
  problem.buckets[0].flatReduce = {Resource::inter, 0, 0.25};
  auto seconds = [&](Residency residency) {
    return estimate(problem, {{residency, residency, Collectives::flat}})
        .seconds;
  };
  // Gather 1.5, compute 1, gather again 1.5, compute 2, reduce 0.25.
  EXPECT_NEAR(seconds(Residency::drop), 6.25, 1e-9);
  EXPECT_NEAR(seconds(Residency::full), 4.75, 1e-9);
  // If the slice is kept, gathers have two steps, 1 + 0.1 and 0.1.
  EXPECT_NEAR(seconds(Residency::node), 4.45, 1e-9);
  EXPECT_NEAR(seconds(Residency::host), 4.95, 1e-9);
  // If the slice is accumulated, reductions have two steps.
  problem.buckets[0].accumulation = Accumulation::node;
  EXPECT_NEAR(seconds(Residency::drop), 7.1, 1e-9);
}

TEST(ResidencyProblem, RefusesWhatCannotBe) {
  ResidencyProblem problem = makeLayers(2, 1, 1, 1);
  EXPECT_EQ(check(problem), "");
  ResidencyProblem bad = problem;
  bad.uses[0].bucket = 2;
  EXPECT_EQ(check(bad), "a use names bucket 2 of 2");
  bad = problem;
  bad.uses[0].until = 4;
  EXPECT_EQ(check(bad), "a use of bucket 'layer0' ends with use 4 of 4");
  bad = problem;
  bad.uses[1].seconds = std::numeric_limits<double>::infinity();
  EXPECT_EQ(check(bad), "a use of bucket 'layer1': expected a finite time and "
                        "bytes of 0 or more");
  bad = problem;
  bad.buckets[1].hostLoad.seconds = -1;
  EXPECT_EQ(check(bad),
            "bucket 'layer1': expected finite costs of 0 s or more");
  bad = problem;
  bad.buckets[0].wholeBytes = -1;
  EXPECT_EQ(check(bad), "bucket 'layer0': expected 0 bytes or more");
  bad = problem;
  bad.buckets[0].flatReduce.latency = -1;
  EXPECT_EQ(check(bad),
            "bucket 'layer0': expected finite costs of 0 s or more");
  bad = problem;
  bad.buckets[1].collectives.clear();
  EXPECT_EQ(check(bad), "bucket 'layer1': expected collectives to choose from");
  bad = problem;
  bad.buckets[0].sumBytes = -1;
  EXPECT_EQ(check(bad), "bucket 'layer0': expected 0 bytes or more");
  bad = problem;
  bad.microBatches = 0;
  EXPECT_EQ(check(bad), "expected at least one micro-batch, local rank and "
                        "reduction at once, and a prefetch of 0 or more");
  bad = problem;
  bad.hostBudget = -1;
  EXPECT_EQ(check(bad), "expected budgets of 0 bytes or more");
}

TEST(ResidencyEstimate, IsMadeOfWhatIsExposed) {
  // One layer without anything to overlap with: gather 1 + 0.1, compute 1,
  // gather or load again, compute 2, reduce 0.1 + 1.
  ResidencyProblem problem = makeLayers(1, 1, 1, 0.5);
  problem.prefetch = 0;
  auto seconds = [&](Residency residency) {
    return estimate(problem, uniform(problem, residency)).seconds;
  };
  EXPECT_NEAR(seconds(Residency::full), 5.2, 1e-9);
  EXPECT_NEAR(seconds(Residency::node), 5.3, 1e-9);
  EXPECT_NEAR(seconds(Residency::host), 5.8, 1e-9);
  EXPECT_NEAR(seconds(Residency::drop), 6.3, 1e-9);
}

// The values that a gather refers to are kept in host memory.
TEST(ResidencyEstimate, DifferencesHaveAPriceOfTheirOwn) {
  ResidencyProblem problem = makeLayers(1, 1, 10, 0);
  problem.prefetch = 0;
  auto secondsOf = [&](Residency residency) {
    return estimate(problem, uniform(problem, residency)).seconds;
  };
  double host = secondsOf(Residency::host), drop = secondsOf(Residency::drop);
  problem.buckets[0].referringGather = Cost{Resource::inter, 0, 4};
  EXPECT_NEAR(secondsOf(Residency::host), host - 6, 1e-9);
  EXPECT_EQ(secondsOf(Residency::drop), drop);
}

TEST(ResidencyEstimate, CountsWhatIsHeld) {
  ResidencyProblem problem = makeLayers(4, 1, 1, 1);
  auto taken = [&](Residency residency) {
    return estimate(problem, uniform(problem, residency));
  };
  // At the last layer all activations and two copies are live.
  EXPECT_EQ(taken(Residency::drop).deviceBytes, 400 + 2 * 4000);
  EXPECT_EQ(taken(Residency::full).deviceBytes, 400 + 4 * 4000);
  EXPECT_EQ(taken(Residency::node).deviceBytes, 400 + 2 * 4000 + 4 * 1000);
  EXPECT_EQ(taken(Residency::host).deviceBytes, 400 + 2 * 4000);
  EXPECT_EQ(taken(Residency::host).hostBytes, 4 * 4 * 1000);
  EXPECT_EQ(taken(Residency::drop).hostBytes, 0);
}

TEST(ResidencyEstimate, SumsInHostMemoryAreStoredAndLoaded) {
  // Two micro-batches of one layer without anything to overlap with: compute
  // takes 6, gathers 0, reductions 0.1 each and 1 in the last one. Gradients
  // that are accumulated on the device are reduced during the second
  // micro-batch. An accumulator in host memory is stored in the first one and
  // loaded, before the reduction, in the second one.
  ResidencyProblem problem = makeLayers(1, 1, 1, 0);
  problem.microBatches = 2;
  Bucket &bucket = problem.buckets[0];
  bucket.interGather = bucket.intraGather = {};
  bucket.sumBytes = 500;
  bucket.sumStore = {Resource::d2h, 0, 2};
  bucket.sumLoad = {Resource::h2d, 0, 3};
  auto taken = [&](Accumulation accumulation) {
    bucket.accumulation = accumulation;
    return estimate(problem, uniform(problem, Residency::drop));
  };
  EXPECT_NEAR(taken(Accumulation::node).seconds, 7.1, 1e-9);
  EXPECT_EQ(taken(Accumulation::node).hostBytes, 0);
  EXPECT_EQ(taken(Accumulation::node_host).hostBytes, 4 * 500);
  // Compute continues while the store runs.
  EXPECT_NEAR(taken(Accumulation::node_host).seconds, 7.1 + 3, 1e-9);
  problem.microBatches = 1;
  EXPECT_EQ(taken(Accumulation::node_host).hostBytes, 0);
  EXPECT_EQ(taken(Accumulation::node_host).seconds,
            taken(Accumulation::node).seconds);
}

TEST(ResidencyEstimate, SumsCrossABoundaryIfCopiesAreFetchedAhead) {
  // As above: the first reduction takes 0.1.
  ResidencyProblem problem = makeLayers(1, 1, 1, 0);
  problem.microBatches = 2;
  Bucket &bucket = problem.buckets[0];
  bucket.interGather = bucket.intraGather = {};
  bucket.accumulation = Accumulation::node;
  Plan plan = uniform(problem, Residency::drop);
  EXPECT_NEAR(estimate(problem, plan).seconds, 7.1, 1e-9);
  problem.prefetch = 0;
  EXPECT_NEAR(estimate(problem, plan).seconds, 7.2, 1e-9);
}

TEST(ResidencyEstimate, SumsInHostMemoryAndThoseInFrontDoNotCrossABoundary) {
  // Two micro-batches of 6 s; layer 1 is reduced first, 2 s before the end.
  ResidencyProblem problem = makeLayers(2, 1, 0, 0);
  problem.microBatches = 2;
  auto seconds = [&](unsigned inHost, unsigned reduced) {
    for (unsigned i : {0, 1}) {
      problem.buckets[i].accumulation =
          i == inHost ? Accumulation::node_host : Accumulation::node;
      problem.buckets[i].intraReduce = {Resource::intra, 0,
                                        i == reduced ? 5.0 : 0.0};
    }
    return estimate(problem, uniform(problem, Residency::drop)).seconds;
  };
  // The reduction of layer 0 runs beside the second micro-batch.
  EXPECT_NEAR(seconds(1, 0), 6 + 6 + 5, 1e-9);
  // The first micro-batch ends with the sum of layer 0, whose reduction runs
  // after the reduction of layer 1.
  EXPECT_NEAR(seconds(0, 1), 2 * (4 + 5), 1e-9);
}

TEST(ResidencyEstimate, MicroBatchesAreServedByWhatIsCarried) {
  ResidencyProblem problem = makeLayers(3, 0.001, 1, 0.001);
  problem.microBatches = 7;
  auto seconds = [&](Residency residency, Residency carry) {
    return estimate(problem, Plan(3, {residency, carry})).seconds;
  };
  // 6 gathers per micro-batch or 3 per step cross between nodes, and 3
  // reductions per micro-batch, plus the transfers at the begin and the end
  // that nothing hides.
  auto expectNear = [](double seconds, double link) {
    EXPECT_GE(seconds, link * (1 - 1e-9));
    EXPECT_LT(seconds, 1.25 * link);
  };
  expectNear(seconds(Residency::drop, Residency::drop), 7 * 9);
  expectNear(seconds(Residency::host, Residency::host), 3 + 7 * 3);
  for (Bucket &bucket : problem.buckets)
    bucket.trainable = false;
  for (ResidencyProblem::Use &use : problem.uses)
    use.reduced.clear();
  // Nothing crosses between nodes; there are 6 gathers within the node per
  // micro-batch.
  EXPECT_NEAR(seconds(Residency::host, Residency::host), 7 * 6 * 0.1, 0.3);
}

TEST(ResidencyPlanning, EqualsExhaustiveSearchOfUpToSixBuckets) {
  std::mt19937 random(7);
  for (unsigned i = 0; i < 60; ++i) {
    ResidencyProblem problem = makeRandom(1 + i % 6, random);
    std::optional<ResidencyEstimate> best = searchExhaustively(problem);
    ASSERT_TRUE(best);
    ResidencySolution found = llvm::cantFail(planResidency(problem));
    EXPECT_EQ(llvm::toString(found.verify(problem)), "");
    // Estimates that are almost equal count as equal, so the choice among
    // equally fast plans depends on the order of comparison.
    EXPECT_NEAR(found.estimate.seconds, best->seconds, 1e-8 * best->seconds)
        << i;
  }
}

// There are 8 plans per bucket.
TEST(ResidencyPlanning, EqualsExhaustiveSearchOfUpToFourThatMayBeFlat) {
  std::mt19937 random(9);
  unsigned flat = 0, split = 0;
  for (unsigned i = 0; i < 40; ++i) {
    ResidencyProblem problem = makeRandom(1 + i % 4, random);
    for (Bucket &bucket : problem.buckets) {
      auto near = [&](const Cost &cost) {
        std::uniform_real_distribution<double> factor(0.7, 1.6);
        return Cost{Resource::inter, 0, factor(random) * cost.seconds};
      };
      bucket.flatGather = near(bucket.interGather);
      bucket.flatReduce = near(bucket.interReduce);
      bucket.collectives.push_back(Collectives::flat);
    }
    std::optional<ResidencyEstimate> best = searchExhaustively(problem);
    ASSERT_TRUE(best);
    ResidencySolution found = llvm::cantFail(planResidency(problem));
    EXPECT_EQ(llvm::toString(found.verify(problem)), "");
    EXPECT_NEAR(found.estimate.seconds, best->seconds, 1e-8 * best->seconds)
        << i;
    for (const BucketResidency &chosen : found.buckets)
      ++(chosen.collectives == Collectives::flat ? flat : split);
  }
  // Neither choice is always better.
  EXPECT_GT(flat, 10u);
  EXPECT_GT(split, 10u);
}

TEST(ResidencyPlanning, FindsFlatCollectivesOfManyBuckets) {
  ResidencyProblem problem = makeLayers(30, 0.1, 1, 3);
  for (Bucket &bucket : problem.buckets) {
    bucket.flatGather = {Resource::inter, 0, 0.5};
    bucket.flatReduce = {Resource::inter, 0, 0.5};
    bucket.collectives.push_back(Collectives::flat);
  }
  ResidencySolution found = llvm::cantFail(planResidency(problem));
  EXPECT_EQ(llvm::toString(found.verify(problem)), "");
  for (const BucketResidency &chosen : found.buckets)
    EXPECT_EQ(chosen.collectives, Collectives::flat);
}

TEST(ResidencyPlanning, IsNeverWorseThanAPresetThatFits) {
  std::mt19937 random(8);
  for (unsigned i = 0; i < 12; ++i) {
    ResidencyProblem problem = makeRandom(10 + 5 * i, random);
    if (i % 2)
      problem.microBatches = 3;
    ResidencySolution found = llvm::cantFail(planResidency(problem));
    EXPECT_EQ(llvm::toString(found.verify(problem)), "");
    for (Residency residency :
         {Residency::full, Residency::node, Residency::host, Residency::drop}) {
      ResidencyEstimate preset = estimate(problem, uniform(problem, residency));
      if (preset.deviceBytes <= problem.deviceBudget &&
          preset.hostBytes <= problem.hostBudget) {
        EXPECT_FALSE(isBetter(preset, found.estimate)) << i;
      }
    }
  }
}

TEST(ResidencyPlanning, SimulatesPlansThatFitOnly) {
  std::mt19937 random(10);
  unsigned left = 0;
  for (unsigned i = 0; i < 20; ++i) {
    ResidencyProblem problem = makeRandom(4, random);
    unsigned all = 0, fit = 0;
    Plan plan(4);
    for (unsigned code = 0; code < 256; ++code) {
      for (unsigned b = 0; b < 4; ++b)
        plan[b].residency = plan[b].carry = Residency((code >> 2 * b) & 3);
      ResidencyMemory kept = estimateMemory(problem, plan);
      ++all;
      fit += kept.deviceBytes <= problem.deviceBudget &&
             kept.hostBytes <= problem.hostBudget;
    }
    EXPECT_EQ(llvm::cantFail(planResidency(problem)).simulated, fit) << i;
    left += all - fit;
  }
  EXPECT_GT(left, 0u);
}

// All plans fit. The search comes to some again in each of its rounds.
TEST(ResidencyPlanning, SimulatesNoPlanTwice) {
  ResidencyProblem problem = makeLayers(24, 1, 2, 3.5);
  ResidencySolution found = llvm::cantFail(planResidency(problem));
  EXPECT_GT(found.simulated, 24u);
  EXPECT_LT(found.simulated, found.considered);
}

TEST(ResidencyPlanning, MixesWhereHostLoadsAreExposed) {
  // In the backward pass, loads and gathers within the node take longer than
  // compute, while gathers between nodes overlap with reductions.
  ResidencyProblem problem = makeLayers(24, 1, 2, 3.5);
  for (Bucket &bucket : problem.buckets)
    bucket.intraGather.seconds = 2.5; // as with one PCIe switch
  auto bytes = [&](Residency residency) {
    return estimate(problem, uniform(problem, residency)).deviceBytes;
  };
  problem.deviceBudget = (bytes(Residency::drop) + bytes(Residency::full)) / 2;
  ResidencySolution found = llvm::cantFail(planResidency(problem));
  for (Residency residency :
       {Residency::node, Residency::host, Residency::drop}) {
    ResidencyEstimate preset = estimate(problem, uniform(problem, residency));
    EXPECT_LT(found.estimate.seconds, 0.98 * preset.seconds);
  }
}

/// Makes layers whose compute hides all transfers and whose first half is
/// frozen.
static ResidencyProblem makeHidden(unsigned layers) {
  ResidencyProblem problem = makeLayers(layers, 1, 0.01, 0.01);
  problem.microBatches = 2;
  for (Bucket &bucket :
       llvm::MutableArrayRef(problem.buckets).take_front(layers / 2))
    bucket.trainable = false;
  for (ResidencyProblem::Use &use : problem.uses)
    if (use.bucket < layers / 2)
      use.reduced.clear();
  return problem;
}

// To gather frozen layers again takes no time here, and no memory.
TEST(ResidencyPlanning, SendsLessIfThatTakesNoLonger) {
  for (unsigned layers : {4, 24}) {
    ResidencyProblem problem = makeHidden(layers);
    ResidencySolution found = llvm::cantFail(planResidency(problem));
    for (unsigned b = 0; b < layers; ++b)
      EXPECT_NE(found.buckets[b].carry, Residency::drop) << b;
    ResidencyEstimate again =
        estimate(problem, uniform(problem, Residency::drop));
    EXPECT_LT(found.estimate.seconds, 1.005 * again.seconds);
    // Each trained layer is gathered once and reduced twice. Without a copy,
    // each layer is gathered four times.
    EXPECT_NEAR(found.estimate.network, 3 * 0.01 * (layers / 2), 1e-9);
    EXPECT_NEAR(again.network, 4 * 0.01 * layers + 2 * 0.01 * (layers / 2),
                1e-9);
  }
}

// Sending less may take a little longer, but not much.
TEST(ResidencyPlanning, BytesAreWorthLittleTime) {
  ResidencyEstimate fast{{0, 0}, {1, 0, 1}}, thrifty{{1, 1}, {1.006, 0, 0.5}};
  EXPECT_TRUE(isBetter(thrifty, fast));
  thrifty.seconds = 1.008;
  EXPECT_TRUE(isBetter(fast, thrifty));
  // A step on one node sends nothing.
  fast.network = thrifty.network = 0;
  thrifty.seconds = 1.0001;
  EXPECT_TRUE(isBetter(fast, thrifty));
}

TEST(ResidencyPlanning, KeepsWhatAUserHasDecided) {
  ResidencyProblem problem = makeLayers(3, 1, 10, 0.1);
  problem.buckets[1].residency = problem.buckets[1].carry = Residency::drop;
  ResidencySolution found = llvm::cantFail(planResidency(problem));
  EXPECT_EQ(found.buckets[1].residency, Residency::drop);
  EXPECT_NE(found.buckets[0].residency, Residency::drop);
  found.buckets[1].residency = Residency::full;
  EXPECT_EQ(llvm::toString(found.verify(problem)),
            "bucket 'layer1': the given residency is not kept");
  found = llvm::cantFail(planResidency(problem));
  found.buckets[0].collectives = Collectives::flat;
  EXPECT_EQ(llvm::toString(found.verify(problem)),
            "bucket 'layer0': its collectives are not among those to choose "
            "from");
}

TEST(ResidencyEstimate, WhatIsOwnedOfAReductionIsGathered) {
  // Gathers of gradients follow the reduction, between nodes and then within
  // them.
  ResidencyProblem problem = makeLayers(1, 1, 1, 0);
  double before = estimate(problem, uniform(problem, Residency::drop)).seconds;
  problem.buckets[0].sumInterGather = {Resource::inter, 0, 2};
  problem.buckets[0].sumIntraGather = {Resource::intra, 0, 3};
  EXPECT_NEAR(estimate(problem, uniform(problem, Residency::drop)).seconds,
              before + 5, 1e-9);
}

TEST(ResidencyPlanning, TakesWhatTheShardingHas) {
  // Slices would be best, but the shard is already one.
  ResidencyProblem problem = makeLayers(4, 1, 2, 0.01);
  for (Bucket &bucket : problem.buckets)
    bucket.sharding = Sharding::node;
  ResidencySolution host{uniform(problem, Residency::host), {}};
  EXPECT_EQ(llvm::toString(host.verify(problem)),
            "bucket 'layer0': its sharding has no such residency");
  ResidencySolution found = llvm::cantFail(planResidency(problem));
  for (const BucketResidency &bucket : found.buckets) {
    EXPECT_TRUE(isPossible(Sharding::node, bucket.residency));
    EXPECT_TRUE(isPossible(Sharding::node, bucket.carry));
  }
}

TEST(ResidencyPlanning, SaysWhatIsMissing) {
  ResidencyProblem problem = makeLayers(3, 1, 1, 1);
  problem.deviceBudget = 100;
  llvm::Expected<ResidencySolution> found = planResidency(problem);
  ASSERT_FALSE(found);
  EXPECT_EQ(llvm::toString(found.takeError()),
            "no plan fits: the smallest takes 8300 bytes of device memory of "
            "100 and 0 bytes of host memory of 1152921504606846976");
}
