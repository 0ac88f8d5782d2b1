// SPDX-License-Identifier: Apache-2.0
//
// Tests what fcdp-run says about a step.
#include "output/EventFile.h"
#include "output/StepText.h"
#include "profile/RankTraces.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>

using namespace fcdp;
using namespace fcdp::run;

namespace {

StepFigures someFigures() {
  StepFigures figures;
  figures.stats.step = 12;
  figures.stats.loss = 4.5;
  figures.stats.learningRate = 1e-3;
  figures.stats.seconds = 0.5;
  figures.secondsLeft = 61.2;
  return figures;
}

TEST(StepTextTest, LeavesOutWhatIsNotKnown) {
  StepFigures figures = someFigures();
  EXPECT_EQ(toText(figures),
            "step 12  loss 4.5  lr 0.001\n  0.500 s  left 1:02");
  auto json = nlohmann::json::parse(toJson(figures));
  for (const char *key : {"loss_scale", "gradient_norm", "tokens_per_second",
                          "exposed_seconds", "epoch"})
    EXPECT_FALSE(json.contains(key)) << key;
}

TEST(StepTextTest, HasAllFigures) {
  StepFigures figures = someFigures();
  figures.stats.lossScale = 65536;
  figures.stats.gradientNorm = 0.25;
  figures.stats.exposedSeconds = 0.06;
  figures.stats.skipped = true;
  figures.stats.skippedSteps = 3;
  figures.tokensPerSecond = 12345;
  figures.epochs = {1, 3};
  EXPECT_EQ(toText(figures),
            "step 12  loss 4.5  lr 0.001  scale 65536  epoch 1:3  norm 0.25  "
            "skipped (3)\n"
            "  0.500 s  12.3k tok/s  exposed 12%  left 1:02");
  auto json = nlohmann::json::parse(toJson(figures));
  EXPECT_EQ(json["loss_scale"], 65536);
  EXPECT_EQ(json["gradient_norm"], 0.25);
  EXPECT_EQ(json["tokens_per_second"], 12345);
  EXPECT_EQ(json["exposed_seconds"], 0.06);
  EXPECT_EQ(json["seconds_left"], 61.2);
}

TEST(StepTextTest, NumbersThatAreNotFinite) {
  StepFigures figures = someFigures();
  figures.stats.gradientNorm = std::numeric_limits<double>::quiet_NaN();
  auto json = nlohmann::json::parse(toJson(figures));
  EXPECT_TRUE(json["gradient_norm"].is_null());
  bool isFound = false;
  for (const auto &[name, value] : toScalars(figures)) {
    EXPECT_NE(name, "step");
    isFound |= name == "gradient_norm" && std::isnan(value);
  }
  EXPECT_TRUE(isFound);
}

TEST(StepTextTest, LongTimesAndManyTokens) {
  StepFigures figures = someFigures();
  for (auto [seconds, text] :
       {std::pair(0.0, "left 0:00"), std::pair(3599.5, "left 1:00:00"),
        std::pair(360000.0, "left 100:00:00"),
        std::pair(1e300, "left 27777")}) {
    figures.secondsLeft = seconds;
    EXPECT_NE(toText(figures).find(text), std::string::npos) << toText(figures);
  }
  for (auto [rate, text] :
       {std::pair(950.0, "  950 tok/s"), std::pair(1234.0, "  1.23k tok/s"),
        std::pair(456e6, "  456M tok/s"), std::pair(7e12, "  7000G tok/s")}) {
    figures.tokensPerSecond = rate;
    EXPECT_NE(toText(figures).find(text), std::string::npos) << toText(figures);
  }
}

TEST(TimeLeftTest, IsTheMeanOfTheStepsAfterTheFirst) {
  using std::chrono::seconds;
  TimeLeft left(10);
  TimeLeft::Clock::time_point start;
  EXPECT_EQ(left.after(3, 20, start), 7 * 20);
  EXPECT_EQ(left.after(4, 1, start + seconds(2)), 6 * 2);
  EXPECT_EQ(left.after(5, 1, start + seconds(8)), 5 * 4);
  EXPECT_EQ(left.after(10, 1, start + seconds(9)), 0);
}

TEST(StepFiguresTest, CountsTokens) {
  StepPlan plan;
  plan.mesh = {2, 3};
  plan.microBatches = 4;
  auto add = [&](plan::DType type, std::vector<int64_t> shape) {
    plan.inputs.push_back(std::make_unique<plan::InputT>());
    plan.inputs.back()->dtype = type;
    plan.inputs.back()->shape = std::move(shape);
  };
  EXPECT_EQ(tokensOfStep(plan, plan.stepInputs(0)), 0);
  add(plan::DType::f32, {5, 7});
  add(plan::DType::i64, {5});
  EXPECT_EQ(tokensOfStep(plan, plan.stepInputs(0)), 0);
  add(plan::DType::i64, {5, 8});
  add(plan::DType::i64, {100, 100});
  EXPECT_EQ(tokensOfStep(plan, plan.stepInputs(0)), 5 * 8 * 4 * 6);
}

TEST(EventFileTest, Checksum) {
  // From RFC 3720, appendix B.4, and the usual check value.
  EXPECT_EQ(crc32c("123456789"), 0xE3069283u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(crc32c(""), 0u);
}

TEST(EventFileTest, NamesAFolderThatItCannotMake) {
  std::string path = testing::TempDir() + "fcdp-events-file";
  std::ofstream(path) << "x";
  for (const std::string &folder : {path, path + "/inside"}) {
    try {
      EventFile file(folder);
      FAIL() << folder;
    } catch (const std::runtime_error &error) {
      EXPECT_EQ(std::string(error.what()).rfind("--tensorboard " + folder, 0),
                0u)
          << error.what();
    }
  }
  std::filesystem::remove(path);
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

} // namespace
