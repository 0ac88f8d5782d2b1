// SPDX-License-Identifier: Apache-2.0
//
// The forms in which a plan's collectives send values between nodes.
#include "core/MessageSpec.h"
#include "plan/PlanCheck.h"

#include <algorithm>

namespace fcdp {

/// Returns the form in which an operation sends values; raw if it sends none.
static plan::Wire wireOf(const plan::OpT &op) {
  return plan::visit(op.body, [](const auto &body) {
    if constexpr (requires { body.wire; })
      return body.wire;
    else
      return plan::Wire::raw;
  });
}

bool StepPlan::codesMessages() const {
  return std::any_of(ops.begin(), ops.end(), [](const auto &op) {
    return wireOf(*op) != plan::Wire::raw;
  });
}

std::string operationKind(const plan::OpT &op) {
  // Profiles do not distinguish what a copy is of.
  if (op.body.type == plan::OpBody::store_value)
    return "cache_store";
  if (op.body.type == plan::OpBody::load_value)
    return "cache_load";
  std::string kind = plan::EnumNameOpBody(op.body.type);
  if (plan::Wire wire = wireOf(op); wire != plan::Wire::raw)
    kind += std::string("_") + plan::EnumNameWire(wire);
  return kind;
}

/// Checks the memory for the messages of a collective, `bytes` if they are
/// coded.
template <typename Op>
static void checkMemory(const StepPlan &plan, const std::string &where,
                        const Op &op, uint64_t bytes,
                        const RegionVisitor &visit) {
  if (op.wire == plan::Wire::raw) {
    if (op.messages)
      failCheck({where, ".messages"}, "expected none with the wire 'raw'");
    return;
  }
  if (op.axis != plan::Axis::node)
    failCheck({where, ".axis"}, "expected 'node' with the wire '",
              EnumNameWire(op.wire), "', got '", EnumNameAxis(op.axis), "'");
  if (!op.messages)
    failCheck({where, ".messages"}, "expected it with the wire '",
              EnumNameWire(op.wire), "'");
  checkFlat(plan, {where, ".messages"}, *op.messages, bytes, plan::DType::u8);
  visit(*op.messages);
}

/// Checks a gather that is not raw.
static void checkDelta(const StepPlan &plan, const std::string &where,
                       const plan::AllGatherT &op) {
  const plan::BucketT &bucket = *plan.buckets[op.bucket];
  bool isShort =
      bucket.wire == plan::DType::bf16 || bucket.wire == plan::DType::f16;
  if (op.wire != plan::Wire::delta || !isShort)
    failCheck({where, ".wire"},
              "expected 'raw', or 'delta' for a bucket in bf16 or f16, got '",
              EnumNameWire(op.wire), "' for ", EnumNameDType(bucket.wire));
  const plan::State *cache = findState(bucket, plan::StateRole::cache);
  if (!cache || cache->buf().bytes() != op.out.bytes())
    failCheck({where, ".out.bytes"},
              "expected the size of the state 'cache' of bucket '", bucket.name,
              "', ", cache ? cache->buf().bytes() : 0, ", got ",
              op.out.bytes());
}

void checkMessages(const StepPlan &plan, const std::string &where,
                   const plan::AllGatherT &op, const RegionVisitor &visit) {
  if (op.wire != plan::Wire::raw)
    checkDelta(plan, where, op);
  checkMemory(plan, where, op,
              codedGatherBytes(plan.ranks(toAxis(op.axis)), op.in.bytes()),
              visit);
}

/// Returns the bytes of the messages of a reduction over `ranks` ranks.
static uint64_t messageBytes(const plan::ReduceScatterT &op, uint64_t ranks) {
  switch (op.wire) {
  case plan::Wire::int8:
    return quantizedReductionBytes(kInt8Format, ranks, op.elements / ranks);
  case plan::Wire::int4:
    return quantizedReductionBytes(kInt4Format, ranks, op.elements / ranks);
  default:
    return codedReductionBytes(ranks, op.in.bytes() / ranks);
  }
}

static void checkResidual(const StepPlan &plan, const std::string &where,
                          const plan::ReduceScatterT &op) {
  const plan::BucketT &bucket = *plan.buckets[op.bucket];
  const plan::State *residual = findState(bucket, plan::StateRole::residual);
  uint64_t bytes = residual ? residual->buf().bytes() : 0;
  if (!residual || bytes != op.elements * sizeof(float) ||
      residual->buf().arena() != plan::Arena::host)
    failCheck({where, ".elements"}, "expected the state 'residual' of bucket '",
              bucket.name, "' to have ", op.elements,
              " numbers in f32 in host memory, got ", bytes, " bytes");
}

void checkMessages(const StepPlan &plan, const std::string &where,
                   const plan::ReduceScatterT &op, const RegionVisitor &visit) {
  if (op.wire == plan::Wire::delta)
    failCheck({where, ".wire"},
              "expected 'raw', 'coded', 'int8' or 'int4', got 'delta'");
  if (op.wire != plan::Wire::raw && op.inType != plan::DType::bf16 &&
      op.inType != plan::DType::f16 && op.inType != plan::DType::f32)
    failCheck({where, ".in_type"}, "expected f32, bf16 or f16 with the wire '",
              EnumNameWire(op.wire), "', got ", EnumNameDType(op.inType));
  if (op.wire == plan::Wire::int8 || op.wire == plan::Wire::int4)
    checkResidual(plan, where, op);
  checkMemory(plan, where, op, messageBytes(op, plan.ranks(toAxis(op.axis))),
              visit);
}

} // namespace fcdp
