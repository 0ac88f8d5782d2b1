// SPDX-License-Identifier: Apache-2.0
//
// Evaluations of fcdp-run, and the part of them that a resumed run remembers.
#include "session/RunFixture.h"

#include <cmath>
#include <limits>

using namespace fcdp;
using namespace fcdp::test;

namespace {

/// linearStep on one rank, with an evaluation whose loss is sum(w x).
FakeStep evaluatedStep() {
  FakeStep fake = linearStep(1, 1, 1);
  Json &plan = fake.plan;
  plan["inputs"].push_back({{"name", "x"},
                            {"shape", {2, 3}},
                            {"dtype", "f32"},
                            {"evaluation", true}});
  size_t x = fake.slot({{"kind", "input"}, {"index", 2}});
  size_t w = fake.slot({{"kind", "planned"},
                        {"buf", device(0, 24)},
                        {"shape", {2, 3}},
                        {"dtype", "f32"}});
  for (const char *role : {"first_evaluation", "next_evaluation"}) {
    Json function = plan["functions"][0];
    function["role"] = role;
    function["first"] = function["end"] = plan["ops"].size();
    plan["functions"].push_back(function);
    size_t product = fake.transient(), loss = fake.transient();
    auto call = [&](const char *callee, const char *overload, Json args,
                    size_t result, Json free) {
      fake.add(role, {{"kind", "aten_call"},
                      {"callee", callee},
                      {"overload", overload},
                      {"args", std::move(args)},
                      {"results", Json::array({result})},
                      {"free", std::move(free)}});
    };
    auto tensor = [](const char *name, size_t slot) {
      return Json::array({name, Json{{"t", slot}}});
    };
    call("aten::mul", "Tensor",
         Json::array({tensor("self", w), tensor("other", x)}), product,
         Json::array());
    call("aten::sum", "", Json::array({tensor("self", product)}), loss,
         Json::array({product}));
    fake.add(role,
             {{"kind", "loss"}, {"slot", loss}, {"free", Json::array({loss})}});
  }
  return fake;
}

class EvaluationRunTest : public RunFixture {
protected:
  EvaluationRunTest() : object(evaluatedStep().build(folder)) {
    writeRows("rows.npy", [](int64_t i) { return sample(i); });
    writeRows("zeros.npy", [](int64_t) { return 0.0F; });
  }

  template <typename Value>
  void writeRows(const std::string &name, Value value) const {
    // The header is that of x.npy.
    std::string bytes = contentOf("x.npy").substr(0, 128);
    std::ofstream file(folder.file(name), std::ios::binary);
    file.write(bytes.data(), std::streamsize(bytes.size()));
    for (int64_t i = 0; i < kRows * 6; ++i) {
      float one = value(i);
      file.write(reinterpret_cast<const char *>(&one), sizeof(one));
    }
  }

  /// Runs it, and returns the lines of its log.
  std::vector<Json> run(const std::string &arguments,
                        const std::string &rows = "rows.npy") {
    Outcome outcome = execute(command(
        object, "--eval-input x=" + folder.file(rows) +
                    " --json=" + folder.file("log.jsonl") + " " + arguments));
    EXPECT_EQ(outcome.exitCode, 0) << outcome.output;
    return readLog();
  }

  /// The steps after which there was an evaluation.
  static std::vector<int> evaluatedAfter(const std::vector<Json> &log) {
    std::vector<int> steps;
    for (const Json &line : log)
      if (line.contains("evaluation_loss"))
        steps.push_back(line["step"]);
    return steps;
  }

  Json savedJob(const std::string &run) const {
    return Json::parse(contentOf(run + "/index.json"))["job"];
  }

  const std::string object;
};

using Steps = std::vector<int>;

TEST_F(EvaluationRunTest, EachIsMadeOnceAndWhenItIsDue) {
  EXPECT_EQ(evaluatedAfter(run("--steps=4 --eval-every=2")), (Steps{2, 4}));
  EXPECT_EQ(evaluatedAfter(run("--steps=5 --eval-every=2")), (Steps{2, 4, 5}));
  EXPECT_EQ(evaluatedAfter(run("--steps=3")), Steps{3});
  EXPECT_EQ(evaluatedAfter(run("--steps=0")), Steps{0});
}

TEST_F(EvaluationRunTest, LossesAreThoseOfTheWeightsOfThatStep) {
  std::vector<Json> log = run("--steps=3 --eval-every=1");
  std::vector<double> losses;
  for (const Json &line : log)
    if (line.contains("evaluation_loss")) {
      EXPECT_EQ(line["batches"], kRows);
      losses.push_back(line["evaluation_loss"]);
    }
  ASSERT_EQ(losses.size(), 3u);
  for (int64_t step = 0; step < 3; ++step) {
    double expected = 0;
    for (int i = 0; i < 6; ++i) {
      double x = sample(step * 6 + i);
      weights[i] -= float(0.5 * 2 * x * (weights[i] * x - label(step * 6 + i)));
      for (int64_t row = 0; row < kRows; ++row)
        expected += double(weights[i]) * sample(row * 6 + i) / kRows;
    }
    EXPECT_NEAR(losses[step], expected, 1e-5 * (1 + std::abs(expected)));
  }
  // Training does not notice.
  std::vector<Json> alone = run("--steps=3");
  std::erase_if(log, [](const Json &line) { return !line.contains("loss"); });
  for (size_t i = 0; i < 3; ++i)
    EXPECT_EQ(log.at(i)["loss"], alone.at(i)["loss"]);
}

TEST_F(EvaluationRunTest, AResumedRunKnowsTheBest) {
  const std::string save =
      " --eval-every=1 --keep-best --save-dir=" + folder.file("run");
  // All losses are 0, so that the first is the best.
  run("--steps=2" + save, "zeros.npy");
  EXPECT_EQ(savedJob("run/step-00000002")["best_step"], 1);
  run("--steps=4 --resume" + save, "zeros.npy");
  Json job = savedJob("run/step-00000004");
  EXPECT_EQ(job["best_step"], 1);
  EXPECT_EQ(job["best_evaluation_loss"], 0);
  EXPECT_TRUE(std::filesystem::exists(folder.file("run/step-00000001")));
  EXPECT_FALSE(std::filesystem::exists(folder.file("run/step-00000003")));
}

TEST_F(EvaluationRunTest, AResumedRunCountsTheStepsSkippedBefore) {
  writeRows("x.npy", [](int64_t i) {
    return i / 6 == 1 ? std::numeric_limits<float>::infinity() : sample(i);
  });
  const std::string save =
      " --on-nonfinite=skip --save-dir=" + folder.file("run");
  EXPECT_EQ(run("--steps=3" + save).at(2)["skipped_steps"], 1);
  std::vector<Json> log = run("--steps=4 --resume" + save);
  std::erase_if(log, [](const Json &line) { return !line.contains("loss"); });
  EXPECT_EQ(log.back()["step"], 4);
  EXPECT_EQ(log.back()["skipped_steps"], 1);
}

// The folder of the checkpoint has the last step already; another one gets it.
TEST_F(EvaluationRunTest, ARunThatIsDoneSavesOnlyElsewhere) {
  const std::string first = folder.file("run"), other = folder.file("other");
  run("--steps=2 --save-dir=" + first);
  auto written = [&] {
    return std::filesystem::last_write_time(first + "/step-00000002");
  };
  const auto before = written();
  run("--steps=2 --resume --save-dir=" + first);
  EXPECT_EQ(written(), before);
  run("--steps=2 --resume=" + first + " --save-dir=" + other);
  EXPECT_TRUE(std::filesystem::exists(other + "/step-00000002/index.json"));
}

} // namespace
