// SPDX-License-Identifier: Apache-2.0
#include "operators/GraphSegment.h"
#include "operators/EmulatedCapture.h"
#include "plan/FakeStep.h"
#include "step/LocalBackend.h"
#include "step/Step.h"
#include "step/StepObject.h"

#include <algorithm>
#include <cstring>
#include <gtest/gtest.h>

using namespace fcdp;
using namespace fcdp::test;

namespace {

/// All buffers of linearStep's plan are in front of this byte.
constexpr uint64_t planned = 512;

/// linearStep, whose calls may be in graphs.
FakeStep replayableStep(int microBatches) {
  FakeStep fake = linearStep(1, 1, microBatches);
  for (Json &op : fake.plan["ops"])
    if (op["kind"] == "aten_call")
      op["replayable"] = true;
  fake.plan["state_bytes"] = planned;
  return fake;
}

/// A step on one rank, with graphs or without.
class Running {
public:
  Running(const std::string &path, bool hasGraphs)
      : object(path),
        backend(object.plan().deviceBytes, object.plan().hostBytes) {
    StepSetup options;
    options.graphs = hasGraphs ? &capture : nullptr;
    step = std::make_unique<Step>(object, backend, options);
    auto *shard = reinterpret_cast<float *>(step->shard(0).data());
    for (int i = 0; i < 6; ++i)
      shard[i] = 0.25f * float(i + 1);
    step->init();
  }

  std::vector<double> run(int index) {
    step->run([&](int64_t microBatch) {
      auto *x = reinterpret_cast<float *>(step->input(0).data());
      auto *y = reinterpret_cast<int64_t *>(step->input(1).data());
      for (int i = 0; i < 6; ++i) {
        x[i] = 0.1f * float((index + 2 * microBatch + i) % 5) - 0.15f;
        y[i] = (index + microBatch + i) % 3;
      }
      if (edit)
        edit(index, x, y);
    });
    return step->losses();
  }
  std::vector<float> shard() {
    auto *data = reinterpret_cast<const float *>(step->shard(0).data());
    return {data, data + 6};
  }
  size_t count(const std::string &callee) const {
    return std::count(capture.captured.begin(), capture.captured.end(), callee);
  }

  EmulatedCapture capture;
  StepObject object;
  LocalBackend backend;
  std::unique_ptr<Step> step;
  std::function<void(int index, float *x, int64_t *y)> edit;
};

class GraphSegments : public testing::Test {
protected:
  /// Runs both and compares them bit for bit.
  void expectEqual(int steps) {
    for (int i = 0; i < steps; ++i) {
      EXPECT_EQ(with->run(i), without->run(i)) << i;
      EXPECT_EQ(with->shard(), without->shard()) << i;
    }
  }
  void make(const FakeStep &fake) {
    std::string path = fake.build(folder);
    with = std::make_unique<Running>(path, true);
    without = std::make_unique<Running>(path, false);
  }

  TemporaryFolder folder;
  std::unique_ptr<Running> with, without;
};

std::vector<std::pair<size_t, size_t>> segmentsOf(const FakeStep &fake) {
  std::vector<std::pair<size_t, size_t>> found;
  for (OpRange range : findSegments(fake.load()))
    found.push_back({range.first, range.end});
  std::sort(found.begin(), found.end());
  return found;
}

/// The index of the `number`th call of `callee`.
size_t indexOf(const FakeStep &fake, const std::string &callee, int number) {
  const Json &ops = fake.plan["ops"];
  for (size_t i = 0; i < ops.size(); ++i)
    if (ops[i].value("callee", "") == callee && number-- == 0)
      return i;
  throw std::logic_error("no such call");
}

using Arguments = std::vector<std::pair<std::string, Json>>;

Json listOf(const Arguments &arguments) {
  Json list = Json::array();
  for (const auto &[name, value] : arguments)
    list.push_back(Json::array({name, value}));
  return list;
}

/// The slot of linearStep's labels.
constexpr size_t labels = 1;

/// Calls an operator in place of the wait in front of the first one, which
/// means nothing on one rank that does everything at once. Returns the slot of
/// its result.
size_t callFirst(FakeStep &fake, const std::string &callee,
                 const std::string &overload, const Arguments &arguments) {
  size_t result = fake.transient(), at = indexOf(fake, "aten::mul", 0) - 1;
  fake.plan["ops"][at] = {{"kind", "aten_call"},  {"callee", callee},
                          {"overload", overload}, {"args", listOf(arguments)},
                          {"results", {result}},  {"free", Json::array()},
                          {"replayable", true}};
  return result;
}

/// Calls another operator of the same first operand in place of `pow`.
void replacePow(FakeStep &fake, const std::string &callee,
                Arguments arguments) {
  Json &pow = fake.plan["ops"][indexOf(fake, "aten::pow", 0)];
  arguments.insert(arguments.begin(), {"self", pow["args"][0][1]});
  pow["callee"] = callee;
  pow["overload"] = "";
  pow["args"] = listOf(arguments);
}

} // namespace

TEST_F(GraphSegments, AreRunsOfComputesOwnOperations) {
  FakeStep fake = replayableStep(1);
  size_t first = indexOf(fake, "aten::mul", 0),
         behindLoss = indexOf(fake, "aten::mul", 1);
  // Up to the loss, and up to the record after the gradient's packing.
  std::vector<std::pair<size_t, size_t>> expected = {
      {first, first + 4}, {behindLoss, behindLoss + 3}};
  EXPECT_EQ(segmentsOf(fake), expected);
  // One that is not replayable ends a run, and what is left is too short.
  fake.plan["ops"][first + 2].erase("replayable");
  expected.erase(expected.begin());
  EXPECT_EQ(segmentsOf(fake), expected);
}

// The result of a pack depends on the weight of the micro-batch.
TEST_F(GraphSegments, LeaveOutPacksOfWeightedGradients) {
  FakeStep fake = replayableStep(1);
  size_t first = indexOf(fake, "aten::mul", 0);
  fake.plan["loss_weight"] = "y";
  fake.slot({{"kind", "loss_weight"}});
  for (Json &op : fake.plan["ops"])
    if (op["kind"] == "pack")
      op["whole"] = device(0, 0);
  std::vector<std::pair<size_t, size_t>> expected = {{first, first + 4}};
  EXPECT_EQ(segmentsOf(fake), expected);
}

TEST_F(GraphSegments, DontCrossFunctions) {
  FakeStep fake = replayableStep(3);
  std::vector<std::pair<size_t, size_t>> found = segmentsOf(fake);
  EXPECT_EQ(found.size(), 6u);
  StepPlan plan = fake.load();
  for (const auto &function : plan.functions)
    for (auto [first, end] : found)
      EXPECT_TRUE(end <= function->first || first >= function->end ||
                  (first >= function->first && end <= function->end))
          << EnumNameRole(function->role);
}

TEST_F(GraphSegments, ComputeWhatOperationsDoOneByOne) {
  make(replayableStep(1));
  expectEqual(6);
  // The first step is recorded, the second captures two, and then all but
  // launches is over.
  EXPECT_EQ(with->capture.numGraphs, 2u);
  EXPECT_EQ(with->capture.numLaunches, 2u * 5);
  EXPECT_EQ(with->count("aten::pow"), 1u);
  EXPECT_EQ(without->capture.numGraphs, 0u);
}

TEST_F(GraphSegments, AreThoseOfEachMicroBatch) {
  make(replayableStep(4));
  expectEqual(6);
  // @next_microbatch runs twice; where both have the same places, one graph
  // does for both.
  EXPECT_GE(with->capture.numGraphs, 2u * 3);
  EXPECT_LE(with->capture.numGraphs, 2u * 4);
  EXPECT_EQ(with->capture.numLaunches, 2u * 4 * 5);
}

TEST_F(GraphSegments, HaveNothingThatIsNotReplayable) {
  FakeStep fake = replayableStep(1);
  fake.plan["ops"][indexOf(fake, "aten::mul", 1)].erase("replayable");
  make(fake);
  expectEqual(4);
  EXPECT_EQ(with->capture.numGraphs, 1u);
  EXPECT_EQ(with->count("aten::mul"), 1u);
}

// As an operator does whose result's size depends on values: no plan has it.
TEST_F(GraphSegments, ThatTakeMemoryOfTheSystemAreRunOneByOne) {
  FakeStep fake = replayableStep(1);
  size_t mask = callFirst(fake, "aten::ge", "Scalar",
                          {{"self", {{"t", labels}}}, {"other", {{"i", 1}}}});
  replacePow(fake, "aten::masked_select", {{"mask", {{"t", mask}}}});
  make(fake);
  for (Running *running : {with.get(), without.get()})
    running->edit = [](int index, float *, int64_t *y) {
      for (int i = 0; i < 6; ++i)
        y[i] = i < 2 + index % 3 ? 5 : 0;
    };
  expectEqual(8);
  EXPECT_EQ(with->count("aten::masked_select"), 1u);
  EXPECT_FALSE(with->capture.isOpen());
}

// As masked_scatter does: for an empty mask it needs no scratch memory, which
// is as large as its result.
TEST_F(GraphSegments, WhoseMemoryDependsOnValuesComputeTheSame) {
  for (int empty : {0, 1, 2}) {
    FakeStep fake = replayableStep(2);
    size_t mask = callFirst(fake, "aten::ge", "Scalar",
                            {{"self", {{"t", labels}}}, {"other", {{"i", 1}}}});
    Json source = fake.plan["ops"][indexOf(fake, "aten::pow", 0)]["args"][0][1];
    replacePow(fake, "aten::masked_scatter",
               {{"mask", {{"t", mask}}}, {"source", source}});
    make(fake);
    for (Running *running : {with.get(), without.get()})
      running->edit = [empty](int index, float *, int64_t *y) {
        std::fill(y, y + 6, index % 3 == empty ? 0 : 1);
      };
    expectEqual(9);
    EXPECT_FALSE(with->capture.isOpen());
  }
}

namespace {

/// `pow` is replaced by a call with an operand of another device.
FakeStep stepWithForeignOperand() {
  FakeStep fake = replayableStep(1);
  size_t foreign =
      callFirst(fake, "aten::zeros_like", "", {{"self", {{"t", labels}}}});
  Json &call = fake.plan["ops"][indexOf(fake, "aten::zeros_like", 0)];
  call["args"].push_back(
      {{"name", "device"}, {"kind", "device"}, {"text", "meta"}});
  call.erase("replayable");
  replacePow(fake, "aten::expand_as", {{"other", {{"t", foreign}}}});
  return fake;
}

} // namespace

// A kernel takes a number on the host by value.
TEST_F(GraphSegments, WithOperandsOfAnotherDeviceAreRunOneByOne) {
  make(stepWithForeignOperand());
  expectEqual(4);
  EXPECT_EQ(with->count("aten::expand_as"), 0u);
  // The other segment has no such operand.
  EXPECT_EQ(with->capture.numGraphs, 1u);
}

TEST_F(GraphSegments, MayHaveUnreadOperandsOfAnotherDevice) {
  FakeStep fake = stepWithForeignOperand();
  fake.plan["ops"][indexOf(fake, "aten::expand_as", 0)]["unread"] = {1};
  make(fake);
  expectEqual(4);
  EXPECT_EQ(with->count("aten::expand_as"), 1u);
  EXPECT_EQ(with->capture.numGraphs, 2u);
}

TEST_F(GraphSegments, SayHowToDoWithoutThem) {
  FakeStep fake = replayableStep(1);
  size_t rows = callFirst(fake, "aten::view", "",
                          {{"self", {{"t", labels}}}, {"size", {{"is", {6}}}}});
  replacePow(fake, "aten::index_select",
             {{"dim", {{"i", 0}}}, {"index", {{"t", rows}}}});
  make(fake);
  // There are two rows.
  with->edit = [](int index, float *, int64_t *y) {
    std::fill(y, y + 6, index == 1 ? 9 : 1);
  };
  with->run(0);
  try {
    with->run(1);
    FAIL() << "expected an error";
  } catch (const std::runtime_error &error) {
    EXPECT_NE(std::string(error.what()).find("--cuda-graphs=off"),
              std::string::npos)
        << error.what();
  }
  EXPECT_EQ(with->capture.numAbandoned, 1u);
  EXPECT_FALSE(with->capture.isOpen());
}
