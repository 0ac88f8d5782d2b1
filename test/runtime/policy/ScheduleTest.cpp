// SPDX-License-Identifier: Apache-2.0
//
// Schedules against their closed forms, and what is wrong in a text.
// test/e2e/test_schedules.py compares them with PyTorch's.
#include "policy/Schedule.h"

#include <cmath>
#include <gtest/gtest.h>
#include <stdexcept>

using namespace fcdp;

namespace {

Schedule parse(const std::string &text) {
  return Schedule::parse(text, "--schedule");
}

TEST(Schedule, ConstantIsOneFromTheFirstStepOn) {
  for (const Schedule &schedule : {Schedule(), parse("constant")})
    for (int64_t step : {int64_t(0), int64_t(1), int64_t(1) << 40})
      EXPECT_EQ(schedule.factor(step), 1);
  EXPECT_EQ(Schedule().text(), "constant");
}

TEST(Schedule, WarmUpIsLinear) {
  for (const char *tail : {"constant", "linear,steps=100", "cosine,steps=100",
                           "wsd,steps=100,decay=10"}) {
    Schedule plain = parse(std::string(tail) + ",warmup=8");
    Schedule started = parse(std::string(tail) + ",warmup=8,start=0.5");
    for (int step = 0; step <= 8; ++step) {
      EXPECT_EQ(plain.factor(step), step / 8.0) << tail;
      EXPECT_EQ(started.factor(step), 0.5 + step / 16.0) << tail;
    }
  }
}

TEST(Schedule, LinearFallsToItsFloorAndStaysThere) {
  Schedule schedule = parse("linear,warmup=4,steps=20,min=0.25");
  EXPECT_EQ(schedule.factor(4), 1);
  EXPECT_EQ(schedule.factor(12), 0.625);
  EXPECT_DOUBLE_EQ(schedule.factor(19), 0.25 + 0.75 / 16);
  for (int64_t step : {20, 21, 1000})
    EXPECT_EQ(schedule.factor(step), 0.25);
}

TEST(Schedule, CosineIsHalfAPeriod) {
  Schedule schedule = parse("cosine,warmup=4,steps=20,min=0.5");
  EXPECT_EQ(schedule.factor(4), 1);
  EXPECT_DOUBLE_EQ(schedule.factor(12), 0.75);
  EXPECT_DOUBLE_EQ(schedule.factor(8), 0.5 + 0.25 * (1 + std::sqrt(0.5)));
  for (int64_t step : {20, 21, 1000})
    EXPECT_EQ(schedule.factor(step), 0.5);
}

TEST(Schedule, WsdIsStableBetweenWarmUpAndDecay) {
  for (const auto &[shape, middle] :
       {std::pair("", 0.5), std::pair(",shape=linear", 0.5),
        std::pair(",shape=cosine", 0.5),
        std::pair(",shape=sqrt", 1 - std::sqrt(0.5))}) {
    Schedule schedule =
        parse(std::string("wsd,warmup=4,steps=20,decay=8") + shape);
    for (int step = 4; step <= 12; ++step)
      EXPECT_EQ(schedule.factor(step), 1) << shape;
    EXPECT_DOUBLE_EQ(schedule.factor(16), middle) << shape;
    EXPECT_GT(schedule.factor(13), schedule.factor(19)) << shape;
    EXPECT_EQ(schedule.factor(20), 0) << shape;
  }
}

TEST(Schedule, NothingBetweenWarmUpAndTheEnd) {
  for (const char *text :
       {"cosine,warmup=4,steps=4,min=0.5", "linear,warmup=4,steps=4,min=0.5"}) {
    EXPECT_EQ(parse(text).factor(3), 0.75) << text;
    EXPECT_EQ(parse(text).factor(4), 0.5) << text;
  }
}

TEST(Schedule, NumbersOfStepsMayHaveExponents) {
  Schedule schedule = parse("linear,steps=1e4,warmup=1.5e3");
  EXPECT_EQ(schedule.factor(1500), 1);
  EXPECT_EQ(schedule.factor(5750), 0.5);
  EXPECT_EQ(schedule.text(), "linear,steps=1e4,warmup=1.5e3");
}

TEST(Schedule, SaysWhatIsWrong) {
  const std::pair<const char *, const char *> cases[] = {
      {"", "unknown schedule ''; expected 'constant', 'linear', 'cosine' or "
           "'wsd'"},
      {"cosin,steps=3", "unknown schedule 'cosin'; expected 'constant', "
                        "'linear', 'cosine' or 'wsd'"},
      {"constant,steps=3",
       "schedule 'constant' has no 'steps'; it has warmup, start"},
      {"cosine,steps=3,decay=2",
       "schedule 'cosine' has no 'decay'; it has warmup, start, steps, min"},
      {"wsd,steps=3,",
       "schedule 'wsd' has no ''; it has warmup, start, steps, min, decay, "
       "shape"},
      {"cosine", "schedule 'cosine' needs 'steps'"},
      {"wsd,steps=3", "schedule 'wsd' needs 'decay'"},
      {"cosine,steps=3,steps=4", "expected 'steps' once"},
      {"cosine,steps=0", "expected 'steps' of at least 1, got '0'"},
      {"wsd,steps=3,decay=0", "expected 'decay' of at least 1, got '0'"},
      {"cosine,steps", "expected a number of steps for 'steps', got ''"},
      {"cosine,steps=2.5", "expected a number of steps for 'steps', got '2.5'"},
      {"cosine,steps=-1", "expected a number of steps for 'steps', got '-1'"},
      {"cosine,steps=1e99",
       "expected a number of steps for 'steps', got '1e99'"},
      {"cosine,steps=inf", "expected a number of steps for 'steps', got 'inf'"},
      {"cosine,steps=3x", "expected a number of steps for 'steps', got '3x'"},
      {"cosine,steps=3,min=x", "expected a number for 'min', got 'x'"},
      {"cosine,steps=3,min=nan", "expected a number for 'min', got 'nan'"},
      {"cosine,steps=3,min=1.5", "expected 'min' in [0, 1], got '1.5'"},
      {"constant,warmup=3,start=-1", "expected 'start' in [0, 1], got '-1'"},
      {"constant,start=0.5", "'start' needs a 'warmup'"},
      {"linear,steps=3,warmup=4",
       "expected 'warmup' to be at most 'steps', which counts them, too; got 4 "
       "of 3"},
      {"wsd,steps=9,warmup=5,decay=5",
       "expected 'warmup' and 'decay' to be at most 'steps', which counts "
       "them, too; got 10 of 9"},
      {"wsd,steps=9,decay=5,shape=flat",
       "expected 'linear', 'cosine' or 'sqrt' for 'shape', got 'flat'"}};
  for (const auto &[text, expected] : cases)
    try {
      parse(text);
      ADD_FAILURE() << text << ": expected an error";
    } catch (const std::runtime_error &error) {
      EXPECT_EQ(error.what(), "--schedule: " + std::string(expected));
    }
}

} // namespace
