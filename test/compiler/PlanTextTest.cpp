// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Conversion/Plan.h"

#include "gtest/gtest.h"

using namespace fcdp;

namespace {
/// Returns the bytes of a plan with one operation.
std::string makePlan() {
  plan::PlanT plan;
  plan.constantsHash = hashBytes("");
  plan.optimizer.Set(plan::SgdT());
  plan::OpT &op = *plan.ops.emplace_back(std::make_unique<plan::OpT>());
  op.body.type = plan::OpBody::loss;
  op.body.value = new plan::LossT; // owned
  return packPlan(plan);
}

/// Sets the type of a union in a table of a plan, and returns the error.
std::string refuse(const std::string &bytes, const void *table, uint16_t field,
                   uint8_t type) {
  const uint8_t *at =
      static_cast<const flatbuffers::Table *>(table)->GetAddressOf(field);
  std::string damaged = bytes;
  damaged[at - reinterpret_cast<const uint8_t *>(bytes.data())] = type;
  return llvm::toString(unpackPlan(damaged, "step.so").takeError());
}

TEST(PlanText, PrintsAndParses) {
  auto plan = unpackPlan(makePlan(), "step.so");
  ASSERT_TRUE(bool(plan));
  auto parsed = parsePlan(printPlan(**plan), "plan.json");
  ASSERT_TRUE(bool(parsed));
  EXPECT_EQ(packPlan(**parsed), makePlan());
}

// Source files may have names in any encoding.
TEST(PlanText, PrintsAndParsesAnyBytes) {
  auto plan = unpackPlan(makePlan(), "step.so");
  ASSERT_TRUE(bool(plan));
  std::string loc("caf\xe9\"\\\n\x01.py:3");
  loc.push_back('\0');
  (*plan)->ops[0]->loc = loc;
  auto parsed = parsePlan(printPlan(**plan), "plan.json");
  ASSERT_TRUE(bool(parsed)) << llvm::toString(parsed.takeError());
  EXPECT_EQ((*parsed)->ops[0]->loc, loc);
}

// FlatBuffers' verifier takes them.
TEST(PlanText, RefusesUnknownKinds) {
  std::string bytes = makePlan();
  const plan::Plan *plan = plan::GetPlan(bytes.data());
  for (uint8_t type : {0, 99}) {
    EXPECT_NE(refuse(bytes, plan->ops()->Get(0), plan::Op::VT_BODY_TYPE, type)
                  .find("'step.so': the plan is damaged"),
              std::string::npos);
    EXPECT_NE(refuse(bytes, plan, plan::Plan::VT_OPTIMIZER_TYPE, type)
                  .find("'step.so': the plan is damaged"),
              std::string::npos);
  }
}
} // namespace
