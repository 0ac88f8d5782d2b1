// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan/FakeStep.h"
#include "step/LocalBackend.h"
#include "step/Step.h"
#include "step/StepObject.h"

#include <gtest/gtest.h>

namespace fcdp::test {

/// A step under construction, and running on one rank.
class StepTest : public ::testing::Test {
protected:
  void load(const StepSetup &setup = {}) {
    object = std::make_unique<StepObject>(fake.build(folder));
    const StepPlan &m = object->plan();
    backend = std::make_unique<LocalBackend>(m.deviceBytes, m.hostBytes);
    step = std::make_unique<Step>(*object, *backend, setup);
  }

  /// One bucket of four elements with its states from byte 0 on.
  void addBucket(const std::string &storage, uint64_t bytes,
                 const std::vector<std::string> &states) {
    Json bucket = {
        {"name", "b"},        {"unit", "u"},         {"trainable", true},
        {"elements", 4},      {"shard_elements", 4}, {"storage", storage},
        {"wire", storage},    {"reduce", "f32"},     {"states", Json::array()},
        {"sharding", "world"}};
    uint64_t offset = 0;
    for (const std::string &state : states) {
      bool isGrad = state == "grad";
      bucket["states"].push_back(
          test::state(state, isGrad ? "f32" : storage,
                      device(offset, isGrad ? 16 : 4 * bytes)));
      offset += 64;
    }
    fake.plan["buckets"].push_back(bucket);
  }

  /// Runs a step whose loss is that of a constant buffer.
  std::vector<double> run() {
    step->run([](int64_t) {});
    return step->losses();
  }

  void addLoss() {
    Json buffer = {{"name", "one"},    {"shape", Json::array()},
                   {"dtype", "f32"},   {"persistent", false},
                   {"mutable", false}, {"constant_offset", 0}};
    fake.plan["buffers"].push_back(buffer);
    fake.constants = {0, 0, 0x80, 0x3f}; // 1.0f
    size_t slot = fake.slot({{"kind", "buffer"}, {"index", 0}});
    fake.add("only_microbatch",
             {{"kind", "loss"}, {"slot", slot}, {"free", Json::array()}});
  }

  void expectLoadError(const std::string &message) {
    try {
      load();
      FAIL() << "expected an error";
    } catch (const std::runtime_error &error) {
      EXPECT_NE(std::string(error.what()).find(message), std::string::npos)
          << error.what();
    }
  }

  void expectRunError(const std::string &message) {
    load();
    try {
      run();
      FAIL() << "expected an error";
    } catch (const std::runtime_error &error) {
      EXPECT_NE(std::string(error.what()).find(message), std::string::npos)
          << error.what();
    }
  }

  TemporaryFolder folder;
  FakeStep fake;
  std::unique_ptr<StepObject> object;
  std::unique_ptr<LocalBackend> backend;
  std::unique_ptr<Step> step;
};

} // namespace fcdp::test
