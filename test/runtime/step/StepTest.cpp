// SPDX-License-Identifier: Apache-2.0
//
// A step's losses, errors and memory.
#include "step/StepFixture.h"

#include <cstring>

using namespace fcdp;
using namespace fcdp::test;

namespace {

TEST_F(StepTest, ConstantsAndLoss) {
  addLoss();
  load();
  EXPECT_EQ(run(), std::vector<double>{1.0});
}

TEST_F(StepTest, LossesAreReadLater) {
  addLoss();
  load();
  auto runWith = [&](float value) {
    std::memcpy(step->buffer(0).data(), &value, sizeof(value));
    step->run([](int64_t) {});
  };
  runWith(2);
  runWith(3);
  EXPECT_EQ(step->losses(), std::vector<double>{2.0});
  runWith(4);
  EXPECT_EQ(step->losses(), std::vector<double>{3.0});
  EXPECT_EQ(step->losses(), std::vector<double>{4.0});
}

TEST_F(StepTest, NoMoreStepsAreUnreadThanThereIsRoomFor) {
  addLoss();
  load();
  auto expectError = [](const std::string &message, auto act) {
    try {
      act();
      FAIL() << "expected an error";
    } catch (const std::runtime_error &error) {
      EXPECT_EQ(error.what(), message);
    }
  };
  expectError("the losses of all steps have been read",
              [&] { step->losses(); });
  step->run([](int64_t) {});
  step->run([](int64_t) {});
  expectError("the losses of 2 steps are not read: read those of the oldest "
              "before another step",
              [&] { step->run([](int64_t) {}); });
}

TEST_F(StepTest, WithoutALossIsAnError) {
  expectRunError("expected one loss per micro-batch, 1, got 0");
}

TEST_F(StepTest, MoreLossesThanMicroBatchesAreAnError) {
  addLoss();
  addLoss();
  expectRunError("expected one loss per micro-batch, 1, got more");
}

TEST_F(StepTest, FailureOfTheBackendIsReported) {
  addLoss();
  load();
  backend->error = "all-gather of bucket 'b': rank 1 is gone";
  EXPECT_THROW(run(), std::runtime_error);
}

TEST_F(StepTest, AnOperationIsNamedOnce) {
  addLoss();
  addBucket("f32", 4, {"shard", "grad"});
  fake.add(
      "update",
      {{"kind", "clip_gradients"}, {"max_norm", 1.0}, {"grad_scale", 1.0}});
  load();
  // As the backends' collectives do.
  backend->sumError = ": rank 1 is gone";
  try {
    run();
    FAIL() << "expected an error";
  } catch (const std::runtime_error &error) {
    EXPECT_STREQ(error.what(), "clip gradients: rank 1 is gone");
  }
}

TEST_F(StepTest, FirstErrorStays) {
  size_t empty = fake.transient();
  for (const char *callee : {"aten::neg", "aten::abs"})
    fake.add(
        "only_microbatch",
        {{"kind", "aten_call"},
         {"callee", callee},
         {"overload", ""},
         {"args", Json::array({Json::array({"self", Json{{"t", empty}}})})},
         {"results", Json::array({-1})},
         {"loc", "model.py:12"},
         {"module_path", "blocks.0"}});
  expectRunError("aten::neg (module 'blocks.0', model.py:12): slot "
                 "0 holds no tensor");
}

TEST_F(StepTest, UnknownOperatorIsNamedAtLoad) {
  fake.add("only_microbatch", {{"kind", "aten_call"},
                               {"callee", "custom::op"},
                               {"overload", ""},
                               {"args", Json::array()},
                               {"results", Json::array()},
                               {"loc", "model.py:4"},
                               {"module_path", "head"}});
  expectLoadError("step.so: custom::op (module 'head', model.py:4): this "
                  "libtorch has no operator 'custom::op'");
}

TEST_F(StepTest, DevicePeakIsArenaPoolAndBuffers) {
  addLoss();
  load();
  run();
  // The arena, and a buffer of one f32.
  EXPECT_EQ(step->memory().devicePeakBytes, 65536u + 4u);
}

} // namespace
