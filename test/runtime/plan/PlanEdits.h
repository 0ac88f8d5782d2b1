// SPDX-License-Identifier: Apache-2.0
//
// Changes of linearStep's plan.
#pragma once

#include "plan/FakeStep.h"

#include <functional>
#include <gtest/gtest.h>
#include <stdexcept>
#include <string>

namespace fcdp::test {

inline Json &op(Json &plan, const std::string &kind) {
  for (Json &entry : plan["ops"])
    if (entry["kind"] == kind)
      return entry;
  throw std::runtime_error("no op " + kind);
}

/// A state of the first bucket.
inline Json &stateOf(Json &plan, const std::string &role) {
  for (Json &entry : plan["buckets"][0]["states"])
    if (entry["role"] == role)
      return entry;
  throw std::runtime_error("no state " + role);
}

/// Has the first gather send differences, without memory for messages.
inline void makeDelta(Json &plan) {
  plan["buckets"][0]["wire"] = "bf16";
  Json kept = stateOf(plan, "grad");
  kept["role"] = "cache";
  kept["dtype"] = "bf16";
  kept["buf"]["arena"] = "host";
  kept["buf"]["offset"] = 0;
  plan["buckets"][0]["states"].push_back(kept);
  Json &gather = op(plan, "all_gather");
  gather["wire"] = "delta";
  gather["in"]["bytes"] = 4;
  gather["out"]["bytes"] = 8;
}

inline void eraseState(Json &plan, const std::string &role) {
  Json &states = plan["buckets"][0]["states"];
  for (size_t i = 0; i < states.size(); ++i)
    if (states[i]["role"] == role)
      return states.erase(i), void();
}

inline void expectRefused(const FakeStep &fake, const std::string &bytes,
                          const std::string &message) {
  try {
    fake.loadBytes(bytes);
    FAIL() << "expected an error";
  } catch (const std::runtime_error &error) {
    EXPECT_NE(std::string(error.what()).find(message), std::string::npos)
        << error.what();
  }
}

/// States in front of byte `states`, and one range that @init, which has all
/// operations, reserves.
inline void reserve(Json &m, uint64_t states, const Json &range) {
  for (Json &function : m["functions"])
    function["first"] = function["end"] = m["ops"].size();
  m["functions"][0]["first"] = 0;
  m["functions"][0]["reserved"] = Json::array({range});
  m["state_bytes"] = states;
}

inline Json range(uint64_t from, uint64_t to, uint64_t offset, uint64_t bytes) {
  return {{"from", from}, {"to", to}, {"offset", offset}, {"bytes", bytes}};
}

inline Json result(uint64_t op, uint64_t offset, uint64_t bytes) {
  return {{"op", op}, {"offset", offset}, {"bytes", bytes}};
}

/// All that is no state, all the time.
inline Json everything(const Json &m, uint64_t states) {
  uint64_t end = m["device_bytes"];
  return range(0, m["ops"].size(), states, end - states);
}

/// Appends an operation to the last function.
inline void append(Json &m, Json op) {
  m["ops"].push_back(std::move(op));
  m["functions"].back()["end"] = m["ops"].size();
}

/// Adds the same inputs for variant 1.
inline void addVariant(Json &m) {
  const Json inputs = m["inputs"];
  for (Json input : inputs) {
    input["variant"] = 1;
    m["inputs"].push_back(input);
  }
}

/// Has all packs of a plan that weights losses by the input `y`.
inline void setWhole(Json &m) {
  m["loss_weight"] = "y";
  for (Json &one : m["ops"])
    if (one["kind"] == "pack")
      one["whole"] = stateOf(m, "grad")["buf"];
}

/// Has outer updates of so many fragments, of which none does anything.
inline void setOuter(Json &m, int fragments = 1) {
  m["outer"] = {{"every", 4},
                {"lr", 0.7},
                {"momentum", 0.9},
                {"nesterov", true},
                {"fragments", fragments}};
  for (int fragment = 0; fragment < fragments; ++fragment) {
    Json function = m["functions"].back();
    function["role"] = "outer_update";
    function["variant"] = fragment;
    function["first"] = function["end"] = m["ops"].size();
    m["functions"].push_back(function);
  }
}

/// The same, with the states of outer steps, and with `op` on the bucket.
inline void setOuterOf(Json &m, Json op) {
  setOuter(m);
  for (const char *role : {"outer", "outer_momentum"})
    m["buckets"][0]["states"].push_back(state(role, "f32", host(1024, 8)));
  op["bucket"] = 0;
  op["elements"] = 2;
  append(m, std::move(op));
}

inline void setDifference(Json &m) {
  setOuterOf(
      m,
      {{"kind", "outer_difference"}, {"out", device(512, 8)}, {"type", "f32"}});
}

inline void setOuterUpdate(Json &m) {
  setOuterOf(m, {{"kind", "outer_update"},
                 {"in", device(512, 8)},
                 {"type", "f32"},
                 {"scale", 0.5}});
}

/// A change of a plan that the runtime refuses, with a message that has this in
/// it.
struct Refusal {
  const char *name;
  std::function<void(Json &)> change;
  const char *message;
};

/// Tests that each is refused; StepPlanTest.cpp has the test.
class RefusalTest : public ::testing::TestWithParam<Refusal> {};

inline std::string nameOf(const ::testing::TestParamInfo<Refusal> &info) {
  return info.param.name;
}

} // namespace fcdp::test
