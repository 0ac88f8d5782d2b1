// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Report/Sweep.h"

#include "gtest/gtest.h"

using namespace fcdp;

namespace {
SweepAxis parse(llvm::StringRef text) {
  llvm::Expected<SweepAxis> axis = parseSweepAxis(text);
  if (axis)
    return *axis;
  ADD_FAILURE() << toString(axis.takeError());
  return {};
}

std::string complain(llvm::StringRef text) {
  llvm::Expected<SweepAxis> axis = parseSweepAxis(text);
  return axis ? "" : toString(axis.takeError());
}

SweepResult make(std::string strategy, double bandwidth, double rate,
                 int64_t device, bool fits = true) {
  SweepResult result;
  result.point.strategy = std::move(strategy);
  result.point.bandwidth = bandwidth;
  result.seconds = 1 / rate;
  result.scenarios.nominal = result.seconds;
  result.scenarios.slower.fill(result.seconds);
  result.scenarios.faster.fill(result.seconds);
  result.tokensPerSecond = rate;
  result.device = device;
  result.fits = fits;
  return result;
}
} // namespace

TEST(Sweep, RangesHaveEqualRatios) {
  SweepAxis axis = parse("bandwidth=1e8:1e10:5");
  EXPECT_EQ(axis.key, SweepKey::bandwidth);
  ASSERT_EQ(axis.values.size(), 5u);
  EXPECT_EQ(axis.values.front(), 1e8);
  EXPECT_NEAR(axis.values[2], 1e9, 1);
  EXPECT_EQ(axis.values.back(), 1e10);
  EXPECT_EQ(parse("memory=1e9:2e9").values.size(), 10u);
}

TEST(Sweep, WholeNumbersAreThereOnce) {
  EXPECT_EQ(parse("nodes=1:4:9").values, (std::vector<double>{1, 2, 3, 4}));
  EXPECT_EQ(parse("ranks=8:8").values, (std::vector<double>{8}));
  EXPECT_EQ(parse("micro-batches=4,1,4").values, (std::vector<double>{1, 4}));
}

TEST(Sweep, StrategiesAreListed) {
  EXPECT_EQ(parse("strategies=zero3,auto").names,
            (std::vector<std::string>{"zero3", "auto"}));
}

TEST(Sweep, SaysWhatIsExpected) {
  EXPECT_EQ(complain("batch=1:2"),
            "expected KEY=LO:HI[:COUNT] or KEY=VALUE,VALUE... with a KEY of "
            "strategies, options, nodes, ranks, micro-batches, bandwidth, "
            "memory; got 'batch=1:2'");
  EXPECT_NE(complain("bandwidth"), "");
  EXPECT_EQ(complain("bandwidth=0:2"),
            "bandwidth: expected a positive number, got '0'");
  EXPECT_EQ(complain("bandwidth=1e999"),
            "bandwidth: expected a positive number, got '1e999'");
  EXPECT_EQ(complain("nodes=1.5,2"),
            "nodes: expected a positive whole number, got '1.5'");
  EXPECT_EQ(complain("nodes=4:2"),
            "nodes: expected the lower number first, got '4:2'");
  EXPECT_EQ(complain("nodes=1:2:1"),
            "nodes: expected a number of points from 2 to 10000, got '1'");
  EXPECT_EQ(complain("nodes=1:2:3:4"),
            "nodes: expected a positive number, got '1:2:3:4'");
}

TEST(Sweep, TheFrontierIsWhatNothingBeats) {
  Sweep sweep;
  sweep.inputs = {"step"};
  sweep.results = {make("zero3", 1, 10, 100), make("fcdp", 1, 20, 100),
                   make("zero2", 1, 30, 200), make("hpz", 2, 30, 300),
                   make("ddp", 1, 90, 50, /*fits=*/false)};
  compareResults(sweep);
  std::vector<bool> frontier, best;
  for (const SweepResult &result : sweep.results) {
    frontier.push_back(result.isOnFrontier);
    best.push_back(result.isBest);
  }
  // zero3 is slower than fcdp and uses as much memory. hpz, with twice the
  // bandwidth, is not faster than zero2, which uses less memory. Points that do
  // not fit dominate nothing.
  EXPECT_EQ(frontier, (std::vector<bool>{false, true, true, false, false}));
  EXPECT_EQ(best, (std::vector<bool>{false, false, true, true, false}));
}

TEST(Sweep, EqualResultsAreBothOnTheFrontier) {
  Sweep sweep;
  sweep.inputs = {"step"};
  sweep.results = {make("zero3", 1, 10, 100), make("fcdp", 1, 10, 100)};
  compareResults(sweep);
  EXPECT_TRUE(sweep.results[0].isOnFrontier && sweep.results[1].isOnFrontier);
  EXPECT_TRUE(sweep.results[0].isBest && sweep.results[1].isBest);
}

TEST(Sweep, WhatIsWithinTheErrorIsAsFast) {
  Sweep sweep;
  sweep.inputs = {"step"};
  sweep.results = {make("zero3", 1, 80, 100), make("fcdp", 1, 99, 100),
                   make("hpz", 1, 100, 100),
                   make("ddp", 1, 100, 100, /*fits=*/false),
                   // At another bandwidth there is nothing to tell it from.
                   make("fcdp", 2, 99, 100)};
  compareResults(sweep);
  std::vector<bool> asFast;
  for (const SweepResult &result : sweep.results)
    asFast.push_back(result.isAsFast);
  EXPECT_EQ(asFast, (std::vector<bool>{false, true, false, false, false}));
}

TEST(Sweep, FindsTheLargestInputThatFits) {
  Sweep sweep;
  sweep.inputs = {"small", "large", "larger"};
  for (size_t input : {0, 1, 2}) {
    sweep.results.push_back(make("zero3", 1, 1, 1, /*fits=*/input < 2));
    SweepResult &result = sweep.results.back();
    result.point.input = input;
    result.tokens = 10 * (input + 1);
    result.elements = input == 0 ? 7 : 5;
  }
  compareResults(sweep);
  ASSERT_EQ(sweep.largest.size(), 1u);
  EXPECT_EQ(sweep.largest[0].batch, 1u);
  EXPECT_EQ(sweep.largest[0].model, 0u);
}

TEST(Sweep, NothingThatFitsIsTheLargest) {
  Sweep sweep;
  sweep.inputs = {"a", "b"};
  sweep.results = {make("zero3", 1, 1, 1, /*fits=*/false)};
  compareResults(sweep);
  ASSERT_EQ(sweep.largest.size(), 1u);
  EXPECT_FALSE(sweep.largest[0].batch || sweep.largest[0].model);
}

TEST(Sweep, FindsTheBandwidthThatHidesCommunication) {
  auto share = [](double bandwidth) { return 3 / bandwidth; };
  std::optional<double> from = findHiddenFrom(1, 1e6, share);
  ASSERT_TRUE(from);
  EXPECT_LT(share(*from), kHidden);
  EXPECT_GT(share(*from / 1.02), kHidden);
  EXPECT_EQ(findHiddenFrom(1, 299, share), std::nullopt);
  EXPECT_EQ(findHiddenFrom(500, 1000, share), 500);
}

TEST(Sweep, FindsTheFirstPointFromWhichAllAreHidden) {
  std::vector<SweepResult> results{make("auto", 1, 1, 1), make("auto", 2, 1, 1),
                                   make("auto", 3, 1, 1),
                                   make("auto", 4, 1, 1)};
  for (auto [result, exposed] :
       llvm::zip_equal(results, std::vector<double>{0, 0.5, 0.001, 0}))
    result.exposedInter = exposed;
  EXPECT_EQ(findHiddenFrom(results), 3);
  results.back().exposedInter = 1;
  EXPECT_EQ(findHiddenFrom(results), std::nullopt);
}
