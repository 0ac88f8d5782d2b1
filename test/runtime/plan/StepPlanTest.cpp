// SPDX-License-Identifier: Apache-2.0
#include "plan/StepPlan.h"
#include "PlanEdits.h"
#include "plan/PlanReader.h"
#include "plan/Reflection.h"

#include <functional>
#include <gtest/gtest.h>

using namespace fcdp;
using namespace fcdp::test;

/// Sets a byte of a table inside `bytes`.
static void setByte(std::string &bytes, const void *table, uint16_t field,
                    uint8_t value) {
  const uint8_t *at =
      static_cast<const flatbuffers::Table *>(table)->GetAddressOf(field);
  bytes[at - reinterpret_cast<const uint8_t *>(bytes.data())] = char(value);
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
  EXPECT_TRUE(plan.uses(plan::OpBody::all_gather, AxisId::Node));
  EXPECT_TRUE(plan.uses(plan::OpBody::all_gather, AxisId::World));
  EXPECT_FALSE(plan.uses(plan::OpBody::all_gather, AxisId::Local));
  EXPECT_TRUE(plan.uses(plan::OpBody::reduce_scatter, AxisId::Local));
  EXPECT_FALSE(plan.uses(plan::OpBody::reduce_scatter, AxisId::World));
  EXPECT_EQ(plan.ranks(AxisId::World), 4u);
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
  EXPECT_EQ(plan.messageBytes(plan::OpBody::all_gather, AxisId::Node),
            Sizes{8});
  EXPECT_EQ(plan.messageBytes(plan::OpBody::all_gather, AxisId::Local),
            Sizes{16});
  EXPECT_EQ(plan.messageBytes(plan::OpBody::reduce_scatter, AxisId::Local),
            Sizes{16});
  EXPECT_EQ(plan.messageBytes(plan::OpBody::reduce_scatter, AxisId::Node),
            Sizes{8});
  EXPECT_EQ(plan.messageBytes(plan::OpBody::all_gather, AxisId::World),
            Sizes{});
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
  EXPECT_EQ(toAxis(plan::Axis::node), AxisId::Node);
  EXPECT_EQ(toAxis(plan::Axis::local), AxisId::Local);
  EXPECT_EQ(toAxis(plan::Axis::world), AxisId::World);
}

TEST(StepPlanTest, VisitsTheTableThatAUnionHolds) {
  StepPlan plan = linearStep(2, 2, 3).load();
  for (const auto &op : plan.ops)
    plan::visit(op->body, [&](const auto &table, auto kind) {
      EXPECT_EQ(&table, op->body.value);
      EXPECT_EQ(kind(), op->body.type);
    });
  plan::visit(plan.optimizer, [&](const auto &table) {
    EXPECT_EQ(&table, plan.optimizer.value);
  });
  EXPECT_THROW(plan::visit(plan::OpBodyUnion(), [](const auto &) {}),
               std::logic_error);
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
  // Padding may follow the last value.
  for (size_t length = 0; length + 8 < whole.size(); ++length)
    EXPECT_THROW(fake.loadBytes(whole.substr(0, length)), std::runtime_error);
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

TEST_P(RefusalTest, NamesTheKey) {
  FakeStep step = linearStep(2, 2, 3);
  step.constants.resize(8);
  GetParam().change(step.plan);
  expectRefused(step, step.bytes(), GetParam().message);
}
