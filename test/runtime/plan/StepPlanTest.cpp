// SPDX-License-Identifier: Apache-2.0
#include "plan/StepPlan.h"
#include "plan/FakeStep.h"
#include "plan/PlanReader.h"
#include "plan/Reflection.h"

#include <functional>
#include <gtest/gtest.h>

using namespace fcdp;
using namespace fcdp::test;

namespace {

Json &op(Json &plan, const std::string &kind) {
  for (Json &entry : plan["ops"])
    if (entry["kind"] == kind)
      return entry;
  throw std::runtime_error("no op " + kind);
}

Json &stateOf(Json &plan, const std::string &role);

/// Has the first gather send differences, without memory for messages.
void makeDelta(Json &plan) {
  plan["buckets"][0]["wire"] = "bf16";
  Json kept = stateOf(plan, "grad");
  kept["role"] = "host";
  kept["dtype"] = "bf16";
  kept["buf"]["arena"] = "host";
  kept["buf"]["offset"] = 0;
  plan["buckets"][0]["states"].push_back(kept);
  Json &gather = op(plan, "all_gather");
  gather["wire"] = "delta";
  gather["in"]["bytes"] = 4;
  gather["out"]["bytes"] = 8;
}

/// A state of the first bucket.
Json &stateOf(Json &plan, const std::string &role) {
  for (Json &entry : plan["buckets"][0]["states"])
    if (entry["role"] == role)
      return entry;
  throw std::runtime_error("no state " + role);
}

void eraseState(Json &plan, const std::string &role) {
  Json &states = plan["buckets"][0]["states"];
  for (size_t i = 0; i < states.size(); ++i)
    if (states[i]["role"] == role)
      return states.erase(i), void();
}

TEST(StepPlanTest, ReadsAStep) {
  StepPlan plan = linearStep(2, 2, 3).load();
  EXPECT_EQ(plan.mesh.nodes, 2u);
  EXPECT_EQ(plan.microBatches, 3u);
  EXPECT_EQ(plan.functions.size(), 5u);
  ASSERT_EQ(plan.parameters.size(), 1u);
  EXPECT_EQ(plan.parameters[0]->names,
            (std::vector<std::string>{"w", "tied.w"}));
  EXPECT_EQ(plan.buckets[0]->shardElements, 2u);
  EXPECT_EQ(plan.inputs[1]->indexLimit, 10);
  EXPECT_EQ(plan.inputs[1]->ignoreIndex, -100);
  EXPECT_FALSE(plan.inputs[0]->indexLimit);
  for (size_t i = 0; i < plan.ops.size(); ++i) {
    if (plan.ops[i]->body.type == plan::OpBody::all_gather) {
      EXPECT_EQ(plan.descriptions[i],
                "all-gather of bucket 'b' over nodes (module 'linear', "
                "model.py:3)");
      break;
    }
  }
}

TEST(StepPlanTest, SaysWhichCommunicatorsItUses) {
  FakeStep fake = linearStep(2, 2, 3);
  // Two parts of a slice make four ranks' whole.
  for (Json &entry : fake.plan["ops"])
    if (entry["kind"] == "all_gather" && entry["axis"] == "local") {
      entry["axis"] = "world";
      uint64_t bytes = entry["in"]["bytes"];
      entry["in"]["bytes"] = bytes / 2;
    }
  StepPlan plan = fake.load();
  EXPECT_TRUE(plan.uses(plan::OpBody::all_gather, Axis::Node));
  EXPECT_TRUE(plan.uses(plan::OpBody::all_gather, Axis::World));
  EXPECT_FALSE(plan.uses(plan::OpBody::all_gather, Axis::Local));
  EXPECT_TRUE(plan.uses(plan::OpBody::reduce_scatter, Axis::Local));
  EXPECT_FALSE(plan.uses(plan::OpBody::reduce_scatter, Axis::World));
  EXPECT_EQ(plan.ranks(Axis::World), 4u);
}

// Slices of 16 bytes.
TEST(StepPlanTest, SaysWhichPartOfTheHostArenaIsARanks) {
  FakeStep fake = linearStep(2, 2, 3);
  StepPlan plan = fake.load();
  EXPECT_EQ(plan.hostPart({0, 0}).begin, 0u);
  EXPECT_EQ(plan.hostPart({0, 0}).end, 16u);
  EXPECT_EQ(plan.hostPart({1, 1}).begin, 16u);
  EXPECT_EQ(plan.hostPart({1, 1}).end, 32u);
  plan.hostBytes = 0;
  plan.buckets.clear();
  plan.ops.clear();
  EXPECT_EQ(plan.hostPart({1, 1}).end, 0u);
}

// A bucket of 32 bytes.
TEST(StepPlanTest, SaysWhichMessagesAreSent) {
  StepPlan plan = linearStep(2, 2, 3).load();
  using Sizes = std::set<uint64_t>;
  EXPECT_EQ(plan.messageBytes(plan::OpBody::all_gather, Axis::Node), Sizes{8});
  EXPECT_EQ(plan.messageBytes(plan::OpBody::all_gather, Axis::Local),
            Sizes{16});
  EXPECT_EQ(plan.messageBytes(plan::OpBody::reduce_scatter, Axis::Local),
            Sizes{16});
  EXPECT_EQ(plan.messageBytes(plan::OpBody::reduce_scatter, Axis::Node),
            Sizes{8});
  EXPECT_EQ(plan.messageBytes(plan::OpBody::all_gather, Axis::World), Sizes{});
}

TEST(StepPlanTest, AddressesOfRanks) {
  plan::Buf buf(plan::Arena::device, 100, 8, 10, 1);
  EXPECT_EQ(offsetOn(buf, {2, 3}), 123u);
}

TEST(StepPlanTest, EnumeratorsAreThoseOfTheBackend) {
  for (plan::DType type : plan::EnumValuesDType())
    EXPECT_EQ(plan::fieldName(EnumNameDType(type)), name(toDType(type)));
  for (plan::Stream stream : plan::EnumValuesStream())
    EXPECT_STREQ(EnumNameStream(stream), name(toStream(stream)));
  EXPECT_EQ(toAxis(plan::Axis::node), Axis::Node);
  EXPECT_EQ(toAxis(plan::Axis::local), Axis::Local);
  EXPECT_EQ(toAxis(plan::Axis::world), Axis::World);
}

TEST(StepPlanTest, HashIsOfTheBytes) {
  // printf abc | sha1sum, and of nothing
  EXPECT_EQ(hashBytes(std::as_bytes(std::span("abc", 3))),
            "a9993e364706816aba3e25717850c26c9cd0d89d");
  EXPECT_EQ(hashBytes({}), "da39a3ee5e6b4b0d3255bfef95601890afd80709");
  EXPECT_THROW(loadPlan({}, std::string(40, '0'), {}), std::runtime_error);
}

TEST(StepPlanTest, RefusesWhatIsNoPlan) {
  FakeStep fake;
  for (std::string bytes : {"", "{}", "FCDPFCDPFCDPFCDPFCDP"})
    EXPECT_THROW(fake.loadBytes(bytes), std::runtime_error);
  std::string whole = fake.bytes();
  // Behind the last value there may be padding.
  for (size_t length = 0; length + 8 < whole.size(); ++length)
    EXPECT_THROW(fake.loadBytes(whole.substr(0, length)), std::runtime_error);
}

/// Sets a byte of a table inside `bytes`.
void setByte(std::string &bytes, const void *table, uint16_t field,
             uint8_t value) {
  const uint8_t *at =
      static_cast<const flatbuffers::Table *>(table)->GetAddressOf(field);
  bytes[at - reinterpret_cast<const uint8_t *>(bytes.data())] = char(value);
}

void expectRefused(const FakeStep &fake, const std::string &bytes,
                   const std::string &message) {
  try {
    fake.loadBytes(bytes);
    FAIL() << "expected an error";
  } catch (const std::runtime_error &error) {
    EXPECT_NE(std::string(error.what()).find(message), std::string::npos)
        << error.what();
  }
}

TEST(StepPlanTest, RefusesUnknownKinds) {
  FakeStep fake = linearStep(2, 2, 3);
  for (uint8_t kind : {0, 99}) {
    std::string of = ": the value " + std::to_string(kind) + " is unknown";
    std::string bytes = fake.bytes();
    setByte(bytes, plan::GetPlan(bytes.data())->ops()->Get(3),
            plan::Op::VT_BODY_TYPE, kind);
    expectRefused(fake, bytes, "plan.ops[3].body_type" + of);
    bytes = fake.bytes();
    setByte(bytes, plan::GetPlan(bytes.data()), plan::Plan::VT_OPTIMIZER_TYPE,
            kind);
    expectRefused(fake, bytes, "plan.optimizer_type" + of);
  }
}

// Whatever is in it is refused, or makes no difference that anybody relies on.
TEST(StepPlanTest, DamagedBytesDoNoHarm) {
  FakeStep fake = linearStep(2, 2, 1);
  const std::string whole = fake.bytes();
  size_t numRefused = 0;
  for (size_t i = 0; i < whole.size(); ++i)
    for (unsigned char value : {0x00, 0x01, 0x7f, 0x80, 0xff}) {
      std::string bytes = whole;
      bytes[i] = char(value);
      try {
        fake.loadBytes(bytes);
      } catch (const std::runtime_error &error) {
        ++numRefused;
        EXPECT_TRUE(std::string_view(error.what()).starts_with("plan"))
            << error.what();
      }
    }
  EXPECT_GT(numRefused, whole.size());
}

/// States in front of byte `states`, and one range that @init, which has all
/// operations, reserves.
void reserve(Json &m, uint64_t states, const Json &range) {
  for (Json &function : m["functions"])
    function["first"] = function["end"] = m["ops"].size();
  m["functions"][0]["first"] = 0;
  m["functions"][0]["reserved"] = Json::array({range});
  m["state_bytes"] = states;
}

Json range(uint64_t from, uint64_t to, uint64_t offset, uint64_t bytes) {
  return {{"from", from}, {"to", to}, {"offset", offset}, {"bytes", bytes}};
}

Json result(uint64_t op, uint64_t offset, uint64_t bytes) {
  return {{"op", op}, {"offset", offset}, {"bytes", bytes}};
}

/// All that is no state, all the time.
Json everything(const Json &m, uint64_t states) {
  uint64_t end = m["device_bytes"];
  return range(0, m["ops"].size(), states, end - states);
}

TEST(StepPlanTest, ReadsReservedRanges) {
  FakeStep step = linearStep(2, 2, 3);
  constexpr uint64_t states = 128;
  reserve(step.plan, states, everything(step.plan, states));
  StepPlan plan = step.load();
  EXPECT_EQ(plan.stateBytes, states);
  const Reservations &reserved =
      plan.reservations[plan.indexOf(plan::Role::init)];
  ASSERT_EQ(reserved.changes.size(), 2u);
  EXPECT_EQ(reserved.changes[0].op, 0u);
  EXPECT_EQ(reserved.changes[1].op, plan.ops.size());
  EXPECT_EQ(reserved.changes[1].ends, std::vector<uint32_t>{0});
}

TEST(StepPlanTest, ReadsWhereResultsAre) {
  FakeStep step = linearStep(2, 2, 3);
  Json &m = step.plan;
  uint64_t end = m["device_bytes"];
  m["device_bytes"] = end + 256;
  constexpr uint64_t states = 128;
  reserve(m, states, range(0, m["ops"].size(), states, end - states));
  m["functions"][0]["results"] = {result(0, end, 100),
                                  result(0, end + 128, 64)};
  std::vector<plan::ResultPlace> results = step.load().functions[0]->results;
  ASSERT_EQ(results.size(), 2u);
  EXPECT_EQ(results[1].op(), 0u);
  EXPECT_EQ(results[1].offset(), end + 128);
  EXPECT_EQ(results[1].bytes(), 64u);
}

/// Appends an operation to the last function.
void append(Json &m, Json op) {
  m["ops"].push_back(std::move(op));
  m["functions"].back()["end"] = m["ops"].size();
}

/// Adds the same inputs for variant 1.
void addVariant(Json &m) {
  const Json inputs = m["inputs"];
  for (Json input : inputs) {
    input["variant"] = 1;
    m["inputs"].push_back(input);
  }
}

/// Has all packs of a plan that weights losses by the input `y`.
void setWhole(Json &m) {
  m["loss_weight"] = "y";
  for (Json &one : m["ops"])
    if (one["kind"] == "pack")
      one["whole"] = stateOf(m, "grad")["buf"];
}

/// Has outer updates of so many fragments, of which none does anything.
void setOuter(Json &m, int fragments = 1) {
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
void setOuterOf(Json &m, Json op) {
  setOuter(m);
  for (const char *role : {"outer", "outer_momentum"})
    m["buckets"][0]["states"].push_back(state(role, "f32", host(1024, 8)));
  op["bucket"] = 0;
  op["elements"] = 2;
  append(m, std::move(op));
}

void setDifference(Json &m) {
  setOuterOf(
      m,
      {{"kind", "outer_difference"}, {"out", device(512, 8)}, {"type", "f32"}});
}

void setOuterUpdate(Json &m) {
  setOuterOf(m, {{"kind", "outer_update"},
                 {"in", device(512, 8)},
                 {"type", "f32"},
                 {"scale", 0.5}});
}

TEST(StepPlanTest, ReadsOuterSteps) {
  FakeStep step = linearStep(2, 2, 3);
  setOuter(step.plan, 2);
  StepPlan plan = step.load();
  EXPECT_EQ(plan.outer->every, 4u);
  EXPECT_EQ(plan.outer->fragments, 2u);
  EXPECT_EQ(plan.numVariants(), 1u);
  EXPECT_EQ(plan.indexOf(plan::Role::outer_update, 1), 6u);
  for (auto change : {setDifference, setOuterUpdate}) {
    FakeStep other = linearStep(2, 2, 3);
    change(other.plan);
    EXPECT_NO_THROW(other.load());
  }
  // An update without momentum keeps none.
  FakeStep plain = linearStep(2, 2, 3);
  setOuterUpdate(plain.plan);
  plain.plan["outer"]["momentum"] = 0;
  eraseState(plain.plan, "outer_momentum");
  EXPECT_NO_THROW(plain.load());
}

TEST(StepPlanTest, OuterStepsNeedNodes) {
  FakeStep step = linearStep(1, 2, 3);
  setOuter(step.plan);
  expectRefused(step, step.bytes(),
                "plan.outer: expected several nodes, got 1");
}

using Fragments = std::vector<uint32_t>;

TEST(StepPlanTest, FragmentsTakeTurns) {
  StepPlan plan;
  EXPECT_EQ(plan.outerFragments(4), Fragments{});
  plan.outer = std::make_unique<plan::OuterT>();
  plan.outer->every = 4;
  plan.outer->fragments = 1;
  for (int64_t step = 1; step <= 12; ++step)
    EXPECT_EQ(plan.outerFragments(step),
              step % 4 == 0 ? Fragments{0} : Fragments{})
        << step;
  // The first of them comes after a whole round.
  plan.outer->fragments = 2;
  std::vector<Fragments> due;
  for (int64_t step = 1; step <= 10; ++step)
    due.push_back(plan.outerFragments(step));
  EXPECT_EQ(due, (std::vector<Fragments>{
                     {}, {1}, {}, {0}, {}, {1}, {}, {0}, {}, {1}}));
}

/// What is due behind a step runs in the next one, if there is one.
TEST(StepPlanTest, FragmentsThatOverlapTakeTurnsAStepLater) {
  StepPlan plan;
  EXPECT_FALSE(plan.overlapsOuter());
  plan.outer = std::make_unique<plan::OuterT>();
  plan.outer->overlap = true;
  EXPECT_TRUE(plan.overlapsOuter());
  plan.outer->every = 4;
  plan.outer->fragments = 2;
  std::vector<Fragments> due;
  for (int64_t step = 1; step <= 9; ++step)
    due.push_back(plan.outerFragments(step));
  EXPECT_EQ(due,
            (std::vector<Fragments>{{}, {}, {1}, {}, {0}, {}, {1}, {}, {0}}));
  // In each of these steps is one of them.
  plan.outer->every = plan.outer->fragments = 3;
  for (int64_t step = 4; step <= 9; ++step)
    EXPECT_EQ(plan.outerFragments(step).size(), 1u) << step;
}

/// Each fragment is due once in `every` steps, also where the number of steps
/// is no multiple of theirs.
TEST(StepPlanTest, EachFragmentIsDueOnceInARound) {
  StepPlan plan;
  plan.outer = std::make_unique<plan::OuterT>();
  for (auto [every, fragments] :
       {std::pair(1u, 1u), {5u, 3u}, {7u, 7u}, {100u, 8u}}) {
    plan.outer->every = every;
    plan.outer->fragments = fragments;
    std::vector<int> counts(fragments);
    for (int64_t step = 2 * every + 1; step <= 3 * every; ++step)
      for (uint32_t fragment : plan.outerFragments(step))
        ++counts[fragment];
    EXPECT_EQ(counts, std::vector<int>(fragments, 1)) << every;
  }
}

struct Refusal {
  const char *name;
  std::function<void(Json &)> change;
  const char *message;
};

class RefusalTest : public ::testing::TestWithParam<Refusal> {};

TEST_P(RefusalTest, NamesTheKey) {
  FakeStep step = linearStep(2, 2, 3);
  step.constants.resize(8);
  GetParam().change(step.plan);
  expectRefused(step, step.bytes(), GetParam().message);
}

const Refusal kRefusals[] = {
    {"Target", [](Json &m) { m["target"] = 7; },
     "plan.target: the value 7 is unknown to this runtime"},
    {"MeshOfNoNodes", [](Json &m) { m["nodes"] = 0; },
     "plan.nodes: expected 1 to 65536, got 0"},
    {"FunctionMissing",
     [](Json &m) {
       m["functions"][0]["end"] = m["functions"][1]["end"];
       m["functions"].erase(1);
     },
     "'first_microbatch' is missing"},
    {"FunctionUnknown", [](Json &m) { m["functions"][0]["role"] = 11; },
     "plan.functions[0].role: the value 11 is unknown"},
    {"FunctionTwice",
     [](Json &m) {
       m["functions"].push_back(m["functions"].back());
       m["functions"].back()["first"] = m["ops"].size();
     },
     "plan.functions[5]: 'update' is there twice"},
    {"FunctionOfAVariant", [](Json &m) { m["functions"][0]["variant"] = 1; },
     "plan.functions[0].variant: expected 0 for 'init', got 1"},
    {"VariantHuge",
     [](Json &m) {
       addVariant(m);
       m["inputs"] = Json::array();
       m["slots"] = Json::array();
       m["functions"][1]["variant"] = 4294967295;
     },
     "plan.functions[1].variant: expected a number below that of the 5 "
     "functions, got 4294967295"},
    {"VariantMissing",
     [](Json &m) {
       addVariant(m);
       m["functions"][1]["variant"] = 1;
     },
     "plan.functions: 'first_microbatch' of variant 0 is missing"},
    {"VariantWithoutInputs", [](Json &m) { m["functions"][1]["variant"] = 1; },
     "plan.inputs: expected 2 for each of 2 variants, got 2"},
    {"VariantShrinks",
     [](Json &m) {
       addVariant(m);
       m["functions"][1]["variant"] = 1;
       m["inputs"][2]["shape"][0] = 0;
     },
     "plan.inputs[2]: expected input 'x' of variant 1, at least as large as "
     "that of the variant before"},
    {"VariantOfAnInput", [](Json &m) { m["inputs"][1]["variant"] = 1; },
     "plan.inputs: expected 1 for each of 1 variants, got 2"},
    {"VariantOfAnEvaluationsInput",
     [](Json &m) {
       m["inputs"][1]["evaluation"] = true;
       m["inputs"][1]["variant"] = 1;
     },
     "plan.inputs[1].variant: expected 0 for an input of the evaluation, got "
     "1"},
    {"OuterEveryZero",
     [](Json &m) {
       setOuter(m);
       m["outer"]["every"] = 0;
     },
     "plan.outer.fragments: expected from 1 to 'every', got 1 of 0"},
    {"OuterWithoutFragments", [](Json &m) { setOuter(m, 0); },
     "plan.outer.fragments: expected from 1 to 'every', got 0 of 4"},
    {"OuterFragmentsOfAStep", [](Json &m) { setOuter(m, 5); },
     "plan.outer.fragments: expected from 1 to 'every', got 5 of 4"},
    {"OuterFragmentsHuge",
     [](Json &m) {
       setOuter(m);
       m["outer"]["every"] = m["outer"]["fragments"] = 4294967295;
     },
     "plan.outer.fragments: expected a number up to that of the 6 functions, "
     "got 4294967295"},
    {"OuterRate",
     [](Json &m) {
       setOuter(m);
       m["outer"]["lr"] = -1;
     },
     "plan.outer.lr: expected a finite number of at least 0, got -1"},
    {"OuterMomentum",
     [](Json &m) {
       setOuter(m);
       m["outer"]["momentum"] = -0.5;
     },
     "plan.outer.momentum: expected a finite number of at least 0, got -0.5"},
    {"OuterUpdateOfNoFragment",
     [](Json &m) {
       setOuter(m);
       m["functions"].back()["variant"] = 1;
     },
     "plan.functions: expected 'outer_update' of 1 fragments, as 'outer' says, "
     "got 'outer_update' of fragment 1"},
    {"OuterUpdateWithoutOuter",
     [](Json &m) {
       setOuter(m);
       m.erase("outer");
     },
     "plan.functions: expected 'outer_update' of 0 fragments, as 'outer' says, "
     "got 'outer_update' of fragment 0"},
    {"OuterUpdateThatOverlaps",
     [](Json &m) {
       setOuter(m);
       m["outer"]["overlap"] = true;
     },
     "plan.functions: expected 'last_outer_microbatch' of 1 fragments, as "
     "'outer' says, got 'outer_update' of fragment 0"},
    {"OuterMicrobatchMissing",
     [](Json &m) {
       setOuter(m);
       m["functions"].erase(5);
       m["outer"]["overlap"] = true;
     },
     "plan.functions: 'last_outer_microbatch' of fragment 0 is missing"},
    {"OuterMicrobatchOfVariants",
     [](Json &m) {
       setOuter(m);
       m["outer"]["overlap"] = true;
       addVariant(m);
       m["functions"][2]["variant"] = 1;
     },
     "plan.outer.overlap: expected a step of one shape, got 2"},
    {"OuterUpdateMissing",
     [](Json &m) {
       setOuter(m, 2);
       m["functions"].erase(5);
     },
     "plan.functions: 'outer_update' of fragment 0 is missing"},
    {"OuterUpdateTwice",
     [](Json &m) {
       setOuter(m, 2);
       m["functions"].back()["variant"] = 0;
     },
     "plan.functions[6]: 'outer_update' is there twice"},
    {"OuterBytes",
     [](Json &m) {
       setDifference(m);
       stateOf(m, "outer")["buf"]["bytes"] = 16;
     },
     "states.outer.bytes: expected 8 (2 elements of f32), got 16"},
    {"OuterMomentumType",
     [](Json &m) {
       setDifference(m);
       stateOf(m, "outer_momentum")["dtype"] = "bf16";
     },
     "states.outer_momentum.dtype: expected f32, got bf16"},
    {"DifferenceWithoutOuter",
     [](Json &m) {
       setDifference(m);
       m.erase("outer");
       m["functions"].erase(5);
       m["functions"].back()["end"] = m["ops"].size();
     },
     "expected 'outer' in the plan"},
    {"DifferenceWithoutState",
     [](Json &m) {
       setDifference(m);
       eraseState(m, "outer");
     },
     "bucket 'b' has no state 'outer' and 'outer_momentum'"},
    {"OuterUpdateWithoutMomentum",
     [](Json &m) {
       setOuterUpdate(m);
       eraseState(m, "outer_momentum");
     },
     "bucket 'b' has no state 'outer' and 'outer_momentum'"},
    {"DifferenceElements",
     [](Json &m) {
       setDifference(m);
       op(m, "outer_difference")["elements"] = 4;
     },
     ".elements: expected the 2 elements of the shard of bucket 'b', got 4"},
    {"DifferenceBytes",
     [](Json &m) {
       setDifference(m);
       op(m, "outer_difference")["type"] = "bf16";
     },
     ".out.bytes: expected 4 (2 elements of bf16), got 8"},
    {"OuterUpdateBytes",
     [](Json &m) {
       setOuterUpdate(m);
       op(m, "outer_update")["in"]["bytes"] = 4;
     },
     ".in.bytes: expected 8 (2 elements of f32), got 4"},
    {"OuterUpdateBucket",
     [](Json &m) {
       setOuterUpdate(m);
       op(m, "outer_update")["bucket"] = 1;
     },
     "index 1 is out of range: there are 1 buckets"},
    {"OuterUpdateScale",
     [](Json &m) {
       setOuterUpdate(m);
       op(m, "outer_update")["scale"] = 0.25;
     },
     ".scale: expected 0.5, 1 / nodes, got 0.25"},
    {"ArenaTooSmall", [](Json &m) { m["device_bytes"] = 100; },
     "inside the device arena of 100 bytes"},
    {"HostArenaTooSmall", [](Json &m) { m["host_bytes"] = 31; },
     "inside the host arena of 31 bytes"},
    {"Sharding", [](Json &m) { m["buckets"][0]["sharding"] = 5; },
     "plan.buckets[0].sharding: the value 5 is unknown"},
    {"ShardOfOtherSharding",
     [](Json &m) { m["buckets"][0]["sharding"] = "node"; },
     "plan.buckets[0].elements: expected 2 shards of 2 elements, got 8"},
    {"NoShardForEachRank",
     [](Json &m) {
       m["buckets"][0]["sharding"] = "none";
       m["buckets"][0]["elements"] = 2;
     },
     "plan.buckets[0].elements: expected a multiple of 4 ranks, got 2"},
    {"HugeOffset",
     [](Json &m) {
       stateOf(m, "shard")["buf"]["offset"] = 9223372036854775807;
     },
     "plan.buckets[0].states[0].buf.offset: expected at most "
     "72057594037927936"},
    {"StrideLeavesArena",
     [](Json &m) { stateOf(m, "shard")["buf"]["node_stride"] = 65536; },
     "inside the device arena"},
    {"Misaligned", [](Json &m) { stateOf(m, "shard")["buf"]["offset"] = 2; },
     "multiples of 4 bytes"},
    {"UnknownArena", [](Json &m) { stateOf(m, "shard")["buf"]["arena"] = 2; },
     "buf.arena: the value 2 is unknown"},
    {"NoShard", [](Json &m) { eraseState(m, "shard"); },
     "the state 'shard' is missing"},
    {"ShardType", [](Json &m) { stateOf(m, "shard")["dtype"] = "bf16"; },
     "states.shard.dtype: expected f32, got bf16"},
    {"GradType", [](Json &m) { stateOf(m, "grad")["dtype"] = "bf16"; },
     "states.grad.dtype: expected f32, got bf16"},
    {"ShardBytes", [](Json &m) { stateOf(m, "shard")["buf"]["bytes"] = 12; },
     "expected 8 (2 elements of f32), got 12"},
    {"BucketElements", [](Json &m) { m["buckets"][0]["elements"] = 12; },
     "expected 4 shards of 2 elements, got 12"},
    {"DType", [](Json &m) { m["buckets"][0]["storage"] = 31; },
     "plan.buckets[0].storage: the value 31 is unknown"},
    {"ParameterBucket", [](Json &m) { m["parameters"][0]["bucket"] = 1; },
     "index 1 is out of range: there are 1 buckets"},
    {"ParameterEnd", [](Json &m) { m["parameters"][0]["offset_elements"] = 3; },
     "'w' ends at element 9 of bucket 'b', which has 8"},
    {"ParameterShape",
     [](Json &m) { m["parameters"][0]["shape"] = {4294967296, 4294967296}; },
     "fewer than 2^56 elements"},
    {"ParameterType", [](Json &m) { m["parameters"][0]["dtype"] = "bf16"; },
     "expected the storage type f32"},
    {"ParameterTwice",
     [](Json &m) { m["parameters"].push_back(m["parameters"][0]); },
     "the name 'w' is there twice"},
    {"ParametersOverlap",
     [](Json &m) {
       Json other = m["parameters"][0];
       other["names"] = {"v"};
       other["offset_elements"] = 2;
       m["parameters"].push_back(other);
     },
     "overlap at element 2"},
    {"GroupIndex", [](Json &m) { m["parameters"][0]["group"] = 0; },
     "parameters[0].group: index 0 is out of range: there are 0 groups"},
    {"GroupRate",
     [](Json &m) {
       m["groups"] = Json::parse(R"([{"lr_factor": -1, "weight_decay": 0}])");
     },
     "groups[0].lr_factor: expected a finite number of at least 0, got "
     "-1"},
    {"GroupDecay",
     [](Json &m) {
       m["groups"] = Json::parse(R"([{"lr_factor": 1, "weight_decay": -1}])");
     },
     "groups[0].weight_decay: expected a finite number of at least 0, got "
     "-1"},
    {"GroupOfAFrozenParameter",
     [](Json &m) {
       m["groups"] = Json::parse(R"([{"lr_factor": 1, "weight_decay": 0}])");
       m["parameters"][0]["group"] = 0;
       m["parameters"][0]["trainable"] = false;
     },
     "parameters[0].group: 'w' is frozen"},
    {"GroupAlignment",
     [](Json &m) {
       m["groups"] = Json::parse(R"([{"lr_factor": 1, "weight_decay": 0}])");
       m["parameters"][0]["offset_elements"] = 2;
     },
     "parameters[0].offset_elements: expected a multiple of 64 bytes, as "
     "the plan has groups, got 8"},
    {"ConstantEnd",
     [](Json &m) {
       m["buffers"] = Json::parse(
           R"([{"name": "c", "shape": [3], "dtype": "f32", "persistent": false,
                "mutable": false, "constant_offset": 0}])");
     },
     "ends at byte 12 of 8 bytes of constants"},
    {"ConstantWithoutValue",
     [](Json &m) {
       m["buffers"] = Json::parse(
           R"([{"name": "c", "shape": [3], "dtype": "f32", "persistent": false,
                "mutable": false}])");
     },
     "'c' has no value: the step was exported from a model without weights"},
    {"InputTwice", [](Json &m) { m["inputs"][1]["name"] = "x"; },
     "the name 'x' is there twice"},
    {"IndexLimitOfFloats", [](Json &m) { m["inputs"][0]["index_limit"] = 3; },
     "expected null for an input of type f32"},
    {"SlotKind", [](Json &m) { m["slots"][0]["kind"] = 9; },
     "plan.slots[0].kind: the value 9 is unknown"},
    {"SlotInput", [](Json &m) { m["slots"][0]["index"] = 2; },
     "index 2 is out of range: there are 2 inputs"},
    {"SlotOfLossScale", [](Json &m) { m["slots"][4]["kind"] = "loss_scale"; },
     "plan.slots[4]: expected an operation 'unscale_gradients' in a plan with "
     "a slot of kind 'loss_scale'"},
    {"UnscaleWithoutLossScale",
     [](Json &m) {
       Json entry = {{"kind", "unscale_gradients"}};
       append(m, entry);
     },
     "plan.slots: expected a slot of kind 'loss_scale' in a plan with an "
     "operation 'unscale_gradients'"},
    {"SlotOfLossWeight", [](Json &m) { m["slots"][4]["kind"] = "loss_weight"; },
     "plan.slots[4]: expected the field 'loss_weight' in a plan with a slot of "
     "kind 'loss_weight'"},
    {"WholeWithoutLossWeight",
     [](Json &m) { op(m, "pack")["whole"] = stateOf(m, "grad")["buf"]; },
     ".whole: expected it if the plan has 'loss_weight', and only then"},
    {"LossWeightWithoutWhole", [](Json &m) { m["loss_weight"] = "y"; },
     ".whole: expected it if the plan has 'loss_weight', and only then"},
    {"WholeOutOfBounds",
     [](Json &m) {
       setWhole(m);
       op(m, "pack")["whole"]["offset"] = 1 << 20;
     },
     "expected a region inside the device arena"},
    {"LossWeightWithoutSlot", [](Json &m) { setWhole(m); },
     "plan.slots: expected a slot of kind 'loss_weight' in a plan with the "
     "field 'loss_weight'"},
    {"LossWeightOfNoInput",
     [](Json &m) {
       setWhole(m);
       m["loss_weight"] = "mask";
     },
     "plan.loss_weight: expected an input of the step, got 'mask'"},
    {"LossWeightIsComplex",
     [](Json &m) {
       setWhole(m);
       m["loss_weight"] = "x";
       m["inputs"][0]["dtype"] = "c64";
     },
     "plan.loss_weight: expected an input of numbers that are not complex, got "
     "'x'"},
    {"SlotBytes", [](Json &m) { m["slots"][2]["buf"]["bytes"] = 20; },
     "plan.slots[2].buf.bytes: expected 24"},
    {"OpSlot", [](Json &m) { op(m, "loss")["slot"] = 1000; },
     "index 1000 is out of range"},
    {"FreeOfPlanned", [](Json &m) { op(m, "loss")["free"] = {2}; },
     "slot 2 is not transient, so it cannot be dropped"},
    {"UnreadArgumentIsNone",
     [](Json &m) { op(m, "aten_call")["unread"] = {7}; },
     ".body.unread: index 7 is out of range: there are 2 arguments"},
    {"ResultIsPlanned", [](Json &m) { op(m, "aten_call")["results"] = {2}; },
     "slot 2 is not transient, so it cannot be a result"},
    {"ArgumentForm",
     [](Json &m) {
       op(m, "aten_call")["args"][0] = {{"name", "self"}, {"kind", 99}};
     },
     ".args[0].kind: the value 99 is unknown"},
    {"ArgumentSlot",
     [](Json &m) { op(m, "aten_call")["args"][0][1] = {{"t", -1}}; },
     "expected an integer of at least 0, got -1"},
    {"SlotOfNoTensor",
     [](Json &m) {
       op(m, "aten_call")["args"][0] = {
           {"name", "self"}, {"kind", "none"}, {"slots", {1000}}};
     },
     ".body.args: index 1000 is out of range: there are"},
    {"PackIntoTransient", [](Json &m) { op(m, "pack")["members"][0][1] = 4; },
     "slot 4 is not planned"},
    {"AccumulateMode", [](Json &m) { op(m, "accumulate")["mode"] = 2; },
     ".body.mode: the value 2 is unknown"},
    {"AccumulateStream", [](Json &m) { op(m, "accumulate")["stream"] = 7; },
     ".body.stream: the value 7 is unknown"},
    {"AccumulateBytes", [](Json &m) { op(m, "accumulate")["elements"] = 4; },
     "expected 16 (4 elements of f32), got 8"},
    {"AddBytes",
     [](Json &m) {
       Json entry = {{"kind", "add"},
                     {"sum", op(m, "accumulate")["in"]},
                     {"in", op(m, "accumulate")["in"]},
                     {"out", op(m, "accumulate")["out"]},
                     {"elements", 4}};
       append(m, entry);
     },
     ".sum.bytes: expected 16 (4 elements of f32), got 8"},
    {"HostSumBytes",
     [](Json &m) {
       Json sum = stateOf(m, "grad");
       sum["role"] = "host_grad";
       m["buckets"][0]["states"].push_back(sum);
     },
     "states.host_grad.bytes: expected 16 (4 elements of f32), got 8"},
    {"Axis", [](Json &m) { op(m, "all_gather")["axis"] = 3; },
     ".body.axis: the value 3 is unknown"},
    {"Stream", [](Json &m) { op(m, "all_gather")["stream"] = 7; },
     ".body.stream: the value 7 is unknown"},
    {"StreamsOfOneCommunicator",
     [](Json &m) {
       append(m, op(m, "all_gather"));
       m["ops"].back()["stream"] = "h2d";
     },
     "expected 'inter', as of the first all_gather over this axis, got 'h2d'"},
    {"GatherBytes", [](Json &m) { op(m, "all_gather")["out"]["bytes"] = 12; },
     "expected 16, one 'in' per rank, got 12"},
    {"MessagesOfARawGather",
     [](Json &m) {
       op(m, "all_gather")["messages"] = stateOf(m, "grad")["buf"];
     },
     ".messages: expected none with the wire 'raw'"},
    {"WireOfAnotherAxis",
     [](Json &m) {
       makeDelta(m);
       op(m, "all_gather")["axis"] = "local";
     },
     ".axis: expected 'node' with the wire 'delta', got 'local'"},
    {"DeltaWithoutMessages", makeDelta,
     ".messages: expected it with the wire 'delta'"},
    {"MessagesBytes",
     [](Json &m) {
       makeDelta(m);
       op(m, "all_gather")["messages"] = stateOf(m, "grad")["buf"];
     },
     ".messages.bytes: expected 256 (256 elements of u8), got 8"},
    {"DeltaInF32", [](Json &m) { op(m, "all_gather")["wire"] = "delta"; },
     ".wire: expected 'raw', or 'delta' for a bucket in bf16 or f16, got "
     "'delta' for f32"},
    {"CodedGather",
     [](Json &m) {
       m["buckets"][0]["wire"] = "bf16";
       op(m, "all_gather")["wire"] = "coded";
     },
     ".wire: expected 'raw', or 'delta' for a bucket in bf16 or f16, got "
     "'coded' for bf16"},
    {"DeltaWithoutHostState",
     [](Json &m) {
       m["buckets"][0]["wire"] = "bf16";
       op(m, "all_gather")["wire"] = "delta";
     },
     ".out.bytes: expected the size of the state 'host' of bucket 'b', 0, got "
     "16"},
    {"DeltaReduction",
     [](Json &m) { op(m, "reduce_scatter")["wire"] = "delta"; },
     ".wire: expected 'raw', 'coded', 'int8' or 'int4', got 'delta'"},
    {"ReductionWithoutResidual",
     [](Json &m) { op(m, "reduce_scatter")["wire"] = "int8"; },
     ".elements: expected the state 'residual' of bucket 'b' to have 8 numbers "
     "in f32 in host memory, got 0 bytes"},
    {"EmptyReductionWithoutResidual",
     [](Json &m) {
       Json &reduce = op(m, "reduce_scatter");
       reduce["wire"] = "int4";
       reduce["elements"] = 0;
       reduce["in"]["bytes"] = reduce["out"]["bytes"] = 0;
     },
     ".elements: expected the state 'residual' of bucket 'b' to have 0 numbers "
     "in f32 in host memory, got 0 bytes"},
    {"CodedReductionWithinNodes",
     [](Json &m) { op(m, "reduce_scatter")["wire"] = "coded"; },
     ".axis: expected 'node' with the wire 'coded', got 'local'"},
    {"ReductionElements",
     [](Json &m) { op(m, "reduce_scatter")["elements"] = 7; },
     "expected a multiple of 2, got 7"},
    {"ReductionScratch",
     [](Json &m) { op(m, "reduce_scatter").erase("scratch"); },
     "'scratch' is missing"},
    {"CopyBytes", [](Json &m) { op(m, "cache_store")["out"]["bytes"] = 8; },
     "expected 16, the bytes of 'in', got 8"},
    {"Event", [](Json &m) { m["num_events"] = 1; }, "there are 1 events"},
    {"UpdateWithoutGrad", [](Json &m) { eraseState(m, "grad"); },
     "bucket 'b' has no state 'grad'"},
    {"UpdateWithoutMoment",
     [](Json &m) { m["optimizer"] = {{"kind", "lion"}, {"lr", 0.1}}; },
     "bucket 'b' has no state 'exp_avg'"},
    {"UpdateByAnotherWithoutMoment",
     [](Json &m) {
       op(m, "shard_update")["optimizer_type"] = "lion";
       op(m, "shard_update")["optimizer"] = {{"lr", 0.1}};
     },
     "bucket 'b' has no state 'exp_avg'"},
    {"UpdateInPartsOfBlocks",
     [](Json &m) {
       m["optimizer"] = {{"kind", "adamw8bit"}, {"lr", 0.1}};
       Json grad = stateOf(m, "grad"), states = Json::array();
       for (const char *moment : {"exp_avg", "exp_avg_sq"}) {
         uint64_t bytes = grad["buf"]["bytes"];
         for (auto [suffix, dtype, size] :
              {std::tuple("_code", "u8", bytes / 4),
               std::tuple("_scale", "f32", uint64_t(0))}) {
           Json state = grad;
           state["role"] = std::string(moment) + suffix;
           state["dtype"] = dtype;
           state["buf"]["bytes"] = size;
           m["buckets"][0]["states"].push_back(state);
         }
       }
     },
     "expected shards of whole blocks of 256 elements, got 2"},
    {"UpdateOutOfProportion",
     [](Json &m) {
       m["optimizer"]["lr"] = 0;
       op(m, "shard_update")["optimizer_type"] = "sgd";
       op(m, "shard_update")["optimizer"] = {{"lr", 0.5}};
     },
     "expected a learning rate of 0, as the plan's, got 0.5"},
    {"UpdateOfVectors",
     [](Json &m) {
       m["optimizer"] = {{"kind", "muon"}, {"lr", 0.1}};
       stateOf(m, "grad")["role"] = "momentum_buffer";
       m["buckets"][0]["states"].push_back(stateOf(m, "momentum_buffer"));
       m["buckets"][0]["states"].back()["role"] = "grad";
       m["parameters"][0]["shape"] = {7};
     },
     "expected parameters of two dimensions, got 'w' of shape [7]"},
    {"UpdateOfSplitMatrices",
     [](Json &m) {
       m["optimizer"] = {{"kind", "muon"}, {"lr", 0.1}};
       stateOf(m, "grad")["role"] = "momentum_buffer";
       m["buckets"][0]["states"].push_back(stateOf(m, "momentum_buffer"));
       m["buckets"][0]["states"].back()["role"] = "grad";
       m["parameters"][0]["shape"] = {1, 7};
     },
     "expected whole parameters in each shard, got 'w' at elements 0 to 7 in "
     "shards of 2"},
    {"UpdateOfSplitParameters",
     [](Json &m) {
       m["optimizer"] = {{"kind", "adafactor"}, {"lr", 0.1}};
       m["parameters"][0]["shape"] = {7};
       for (auto [role, elements] :
            {std::pair("row_var", 0), std::pair("col_var", 0),
             std::pair("variance", 7)}) {
         Json state = stateOf(m, "grad");
         state["role"] = role;
         state["buf"]["bytes"] = 4 * elements;
         m["buckets"][0]["states"].push_back(state);
       }
     },
     "expected whole parameters in each shard, got 'w' at elements 0 to 7 in "
     "shards of 2"},
    {"UpdateOfMeansOfOtherRows",
     [](Json &m) {
       m["optimizer"] = {{"kind", "adafactor"}, {"lr", 0.1}};
       m["parameters"][0]["shape"] = {2, 1};
       for (auto [role, elements] :
            {std::pair("row_var", 1), std::pair("col_var", 1),
             std::pair("variance", 0)}) {
         Json state = stateOf(m, "grad");
         state["role"] = role;
         state["buf"]["bytes"] = 4 * elements;
         m["buckets"][0]["states"].push_back(state);
       }
     },
     "row_var.bytes: expected 8 (2 elements of f32), got 4"},
    {"UpdateWithoutVariance",
     [](Json &m) { m["optimizer"] = {{"kind", "adafactor"}, {"lr", 0.1}}; },
     "bucket 'b' has no state 'row_var'"},
    {"UpdateWithoutMomentum", [](Json &m) { m["optimizer"]["momentum"] = 0.9; },
     "bucket 'b' has no state 'momentum_buffer'"},
    {"ReservedStatesBehindTheArena",
     [](Json &m) { reserve(m, 1 << 20, range(0, 1, 0, 64)); },
     "plan.state_bytes: expected at most the 65536 bytes"},
    {"ReservedStatesUneven",
     [](Json &m) { reserve(m, 100, range(0, 1, 128, 64)); },
     "plan.state_bytes: expected a multiple of 64, got 100"},
    {"ReservedStateBehind", [](Json &m) { reserve(m, 0, range(0, 1, 0, 64)); },
     "plan.state_bytes: expected all states in front of it"},
    {"ReservedFunctionMissing",
     [](Json &m) {
       reserve(m, 4096, everything(m, 4096));
       m["functions"].erase(4);
     },
     "plan.functions: 'update' is missing"},
    {"ReservedFunctionsOverlap",
     [](Json &m) {
       reserve(m, 4096, everything(m, 4096));
       m["functions"][4]["first"] = 1;
     },
     "plan.functions[4]: expected functions of operations that follow"},
    {"ReservedCallsMissing",
     [](Json &m) {
       reserve(m, 4096, everything(m, 4096));
       m["ops"].push_back(m["ops"][0]);
     },
     "plan.functions: expected"},
    {"ReservedBackwards",
     [](Json &m) { reserve(m, 4096, range(1, 1, 4096, 64)); },
     "reserved[0]: expected a stretch of the function's operations"},
    {"ReservedInStates", [](Json &m) { reserve(m, 4096, range(0, 1, 0, 64)); },
     "reserved[0]: expected bytes between 4096, where states end"},
    {"ReservedUneven", [](Json &m) { reserve(m, 4096, range(0, 1, 4100, 64)); },
     "reserved[0]: expected an offset that is a multiple of 64, got 4100"},
    {"ReservedUnevenBytes",
     [](Json &m) { reserve(m, 4096, range(0, 1, 4096, 100)); },
     "reserved[0]: expected bytes that are a multiple of 64, got 100"},
    {"ReservedNothing", [](Json &m) { reserve(m, 4096, range(0, 1, 4096, 0)); },
     "reserved[0]: expected bytes, got 0"},
    {"ResultOfAnotherFunction",
     [](Json &m) {
       reserve(m, 4096, everything(m, 4096));
       m["functions"][4]["results"] = {result(0, 4096, 64)};
     },
     "results[0]: expected an operation from"},
    {"ResultInStates",
     [](Json &m) {
       reserve(m, 4096, everything(m, 4096));
       m["functions"][0]["results"] = {result(0, 0, 64)};
     },
     "results[0]: expected bytes between 4096, where states end"},
    {"ResultWhereReserved",
     [](Json &m) {
       reserve(m, 4096, everything(m, 4096));
       m["functions"][0]["results"] = {result(0, 4096, 64)};
     },
     "results[0]: bytes 4096 to 65536 of the device arena are reserved where "
     "operation 0 runs"},
    {"ReservedTooLittle",
     [](Json &m) { reserve(m, 128, range(0, 1, 128, 64)); },
     "of the device arena are not reserved there"},
    {"UpdateOfFrozen", [](Json &m) { m["buckets"][0]["trainable"] = false; },
     "bucket 'b' is frozen"},
};

INSTANTIATE_TEST_SUITE_P(StepPlan, RefusalTest, ::testing::ValuesIn(kRefusals),
                         [](const auto &info) {
                           return std::string(info.param.name);
                         });

} // namespace
