// SPDX-License-Identifier: Apache-2.0
//
// The checks of a plan's operations.
#include "plan/PlanCheck.h"

#include <map>

namespace fcdp {

namespace {

/// Checks one operation.
class OpChecker {
public:
  OpChecker(const StepPlan &plan, const std::string &where)
      : plan(plan), where(where) {}

  void operator()(const plan::AtenCallT &op) const;
  void operator()(const plan::WriteBufferT &op) const;
  void operator()(const plan::LossT &op) const;
  void operator()(const plan::CastT &op) const;
  void operator()(const plan::PackBucketT &op) const;
  void operator()(const plan::AccumulateT &op) const;
  void operator()(const plan::AddT &op) const;
  void operator()(const plan::ClipGradientsT &op) const;
  void operator()(const plan::ShardUpdateT &op) const;
  void operator()(const plan::AllGatherT &op) const;
  void operator()(const plan::ReduceScatterT &op) const;
  void operator()(const plan::CacheCopyT &op) const;
  void operator()(const plan::EventT &op) const;

private:
  void checkSlot(const char *field, uint64_t slot) const;
  void checkSlots(const char *field, const std::vector<int32_t> &slots) const;
  void checkTransient(const char *field, size_t slot,
                      const char *purpose) const;
  void checkFree(const std::vector<uint32_t> &slots) const;
  void checkArgument(const plan::ArgumentT &argument,
                     const std::string &path) const;
  void checkBucket(size_t bucket) const;
  void flat(const char *field, const plan::Buf &buf, uint64_t elements,
            plan::DType dtype) const {
    checkFlat(plan, where + field, buf, elements, dtype);
  }

  const StepPlan &plan;
  const std::string &where;
};

void OpChecker::checkSlot(const char *field, uint64_t slot) const {
  if (slot >= plan.slots.size())
    checkIndex(where + field, slot, plan.slots.size(), "slots");
}

/// Checks slots of which -1 stands for none.
void OpChecker::checkSlots(const char *field,
                           const std::vector<int32_t> &slots) const {
  for (int64_t slot : slots)
    if (slot < -1)
      failCheck(where + field, "expected an integer of at least -1, got " +
                                   std::to_string(slot));
    else if (slot >= 0)
      checkSlot(field, slot);
}

void OpChecker::checkTransient(const char *field, size_t slot,
                               const char *purpose) const {
  checkSlot(field, slot);
  if (plan.slots[slot]->kind != plan::SlotKind::transient)
    failCheck(where + field, "slot " + std::to_string(slot) +
                                 " is not transient, so it cannot be " +
                                 purpose);
}

void OpChecker::checkFree(const std::vector<uint32_t> &slots) const {
  for (uint32_t slot : slots)
    checkTransient(".free", slot, "dropped");
}

void OpChecker::checkBucket(size_t bucket) const {
  if (bucket >= plan.buckets.size())
    checkIndex(where + ".bucket", bucket, plan.buckets.size(), "buckets");
}

void OpChecker::checkArgument(const plan::ArgumentT &argument,
                              const std::string &path) const {
  using Kind = plan::ArgumentKind;
  auto checkOne = [&](const char *field, size_t count) {
    if (count != 1)
      failCheck(where + path + field,
                "expected one value, got " + std::to_string(count));
  };
  auto checkBools = [&] {
    for (int64_t value : argument.integers)
      if (value != 0 && value != 1)
        failCheck(where + path + ".integers",
                  "expected 0 or 1, got " + std::to_string(value));
  };
  switch (argument.kind) {
  case Kind::tensor:
    checkOne(".slots", argument.slots.size());
    if (argument.slots[0] < 0)
      failCheck(where + path + ".slots",
                "expected an integer of at least 0, got -1");
    return checkSlots(".args", argument.slots);
  case Kind::tensors:
    return checkSlots(".args", argument.slots);
  case Kind::boolean:
    checkBools();
    [[fallthrough]];
  case Kind::integer:
    return checkOne(".integers", argument.integers.size());
  case Kind::booleans:
    return checkBools();
  case Kind::float_number:
    return checkOne(".floats", argument.floats.size());
  case Kind::dtype:
    return checkOne(".dtype", argument.dtype.has_value());
  case Kind::layout:
    return checkOne(".layout", argument.layout.has_value());
  case Kind::memory_format:
    return checkOne(".memory_format", argument.memoryFormat.has_value());
  case Kind::none:
  case Kind::integers:
  case Kind::float_numbers:
  case Kind::text:
  case Kind::device:
    return; // any value will do
  }
}

void OpChecker::operator()(const plan::AtenCallT &op) const {
  for (size_t i = 0; i < op.args.size(); ++i)
    checkArgument(*op.args[i], ".args[" + std::to_string(i) + "]");
  for (int64_t slot : op.results)
    if (slot < -1)
      failCheck(where + ".results", "expected an integer of at least -1, got " +
                                        std::to_string(slot));
    else if (slot >= 0)
      checkTransient(".results", slot, "a result");
  checkFree(op.free);
}

void OpChecker::operator()(const plan::WriteBufferT &op) const {
  checkSlot(".slot", op.slot);
  checkIndex(where + ".buffer", op.buffer, plan.buffers.size(), "buffers");
  const plan::BufferT &buffer = *plan.buffers[op.buffer];
  if (!buffer.mutable_)
    failCheck(where + ".buffer", "'" + buffer.name + "' is not mutable");
  checkFree(op.free);
}

void OpChecker::operator()(const plan::LossT &op) const {
  checkSlot(".slot", op.slot);
  checkFree(op.free);
}

void OpChecker::operator()(const plan::CastT &op) const {
  flat(".in", op.in, op.elements, op.inType);
  flat(".out", op.out, op.elements, op.outType);
}

void OpChecker::operator()(const plan::PackBucketT &op) const {
  for (const plan::PackMember &member : op.members) {
    checkSlot(".members", member.source());
    checkSlot(".members", member.planned());
    if (plan.slots[member.planned()]->kind != plan::SlotKind::planned)
      failCheck(where + ".members",
                "slot " + std::to_string(member.planned()) + " is not planned");
  }
  for (const plan::Buf &buf : op.zero)
    checkBuf(plan, where + ".zero", buf);
  checkFree(op.free);
  if (op.bucket)
    checkBucket(*op.bucket);
}

void OpChecker::operator()(const plan::AccumulateT &op) const {
  flat(".in", op.in, op.elements, plan::DType::f32);
  flat(".out", op.out, op.elements, plan::DType::f32);
  if (op.bucket)
    checkBucket(*op.bucket);
}

void OpChecker::operator()(const plan::AddT &op) const {
  flat(".sum", op.sum, op.elements, plan::DType::f32);
  flat(".in", op.in, op.elements, plan::DType::f32);
  flat(".out", op.out, op.elements, plan::DType::f32);
}

void OpChecker::operator()(const plan::ClipGradientsT &op) const {
  if (!(op.maxNorm > 0))
    failCheck(where + ".max_norm", "expected a positive number");
}

void OpChecker::operator()(const plan::ShardUpdateT &op) const {
  checkBucket(op.bucket);
  const plan::BucketT &bucket = *plan.buckets[op.bucket];
  auto needs = [&](plan::StateRole role) {
    if (!findState(bucket, role))
      failCheck(where, "bucket '" + bucket.name + "' has no state '" +
                           plan::EnumNameStateRole(role) + "'");
  };
  if (!bucket.trainable)
    failCheck(where, "bucket '" + bucket.name + "' is frozen");
  needs(plan::StateRole::grad);
  if (plan.optimizer.Asadamw()) {
    needs(plan::StateRole::exp_avg);
    needs(plan::StateRole::exp_avg_sq);
  } else if (plan.optimizer.Assgd()->momentum != 0) {
    needs(plan::StateRole::momentum_buffer);
  }
}

void OpChecker::operator()(const plan::AllGatherT &op) const {
  checkBucket(op.bucket);
  checkBuf(plan, where + ".in", op.in);
  checkBuf(plan, where + ".out", op.out);
  checkEqual(where + ".out.bytes", op.in.bytes() * plan.ranks(toAxis(op.axis)),
             op.out.bytes(), ", one 'in' per rank");
}

void OpChecker::operator()(const plan::ReduceScatterT &op) const {
  checkBucket(op.bucket);
  uint64_t ranks = plan.ranks(toAxis(op.axis));
  if (op.elements % ranks != 0)
    failCheck(where + ".elements", "expected a multiple of " +
                                       std::to_string(ranks) + ", got " +
                                       std::to_string(op.elements));
  flat(".in", op.in, op.elements, op.inType);
  flat(".out", op.out, op.elements / ranks, op.outType);
  if (!op.scratch && ranks > 1)
    failCheck(where, "'scratch' is missing; a reduction over " +
                         std::to_string(ranks) + " ranks needs it");
  if (op.scratch)
    flat(".scratch", *op.scratch, op.elements, op.inType);
}

void OpChecker::operator()(const plan::CacheCopyT &op) const {
  checkBucket(op.bucket);
  checkBuf(plan, where + ".in", op.in);
  checkBuf(plan, where + ".out", op.out);
  checkEqual(where + ".out.bytes", op.in.bytes(), op.out.bytes(),
             ", the bytes of 'in'");
}

void OpChecker::operator()(const plan::EventT &op) const {
  checkIndex(where + ".event", op.event, plan.numEvents, "events");
}

/// Gathers have a communicator per axis, reductions another: one stream uses
/// it.
void checkCommunicators(const StepPlan &plan) {
  std::map<std::pair<plan::OpBody, plan::Axis>, plan::Stream> streams;
  for (size_t i = 0; i < plan.ops.size(); ++i) {
    plan::OpBody kind = plan.ops[i]->body.type;
    visitBody(*plan.ops[i], [&](const auto &body) {
      if constexpr (requires { body.axis; }) {
        plan::Stream first =
            streams.emplace(std::pair(kind, body.axis), body.stream)
                .first->second;
        if (first != body.stream)
          failCheck(at("ops", i) + ".stream",
                    "expected '" + std::string(EnumNameStream(first)) +
                        "', as of the first " + EnumNameOpBody(kind) +
                        " over this axis, got '" + EnumNameStream(body.stream) +
                        "'");
      }
    });
  }
}

} // namespace

void checkOps(const StepPlan &plan) {
  for (size_t i = 0; i < plan.ops.size(); ++i) {
    std::string where = at("ops", i) + ".body";
    visitBody(*plan.ops[i], OpChecker(plan, where));
  }
  checkCommunicators(plan);
}

} // namespace fcdp
