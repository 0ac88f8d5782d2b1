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
  OpChecker(const StepPlan &plan, size_t index)
      : plan(plan), where(at("ops", index) + ".body") {}

  template <typename Op>
  void operator()(const Op &op) const {
    // These fields have one meaning in all operations.
    if constexpr (requires { op.bucket; })
      checkBucket(op.bucket);
    if constexpr (requires { op.slot; })
      checkSlot(".slot", op.slot);
    if constexpr (requires { op.free; })
      for (uint32_t slot : op.free)
        checkTransient(".free", slot, "dropped");
    check(op);
  }

private:
  void check(const plan::AtenCallT &op) const {
    for (size_t i = 0; i < op.args.size(); ++i)
      checkArgument(*op.args[i], ".args[" + std::to_string(i) + "]");
    for (int32_t slot : op.results)
      if (isSlot(".results", slot))
        checkTransient(".results", slot, "a result");
  }
  void check(const plan::WriteBufferT &op) const {
    checkIndex(where + ".buffer", op.buffer, plan.buffers.size(), "buffers");
    if (!plan.buffers[op.buffer]->mutable_)
      failCheck(where + ".buffer", "'", plan.buffers[op.buffer]->name,
                "' is not mutable");
  }
  void check(const plan::LossT &) const {}
  void check(const plan::CastT &op) const {
    flat(".in", op.in, op.elements, op.inType);
    flat(".out", op.out, op.elements, op.outType);
  }
  void check(const plan::PackBucketT &op) const {
    for (const plan::PackMember &member : op.members) {
      checkSlot(".members", member.source());
      checkSlot(".members", member.planned());
      if (plan.slots[member.planned()]->kind != plan::SlotKind::planned)
        failCheck(where + ".members", "slot ", member.planned(),
                  " is not planned");
    }
    for (const plan::Buf &buf : op.zero)
      checkBuf(plan, where + ".zero", buf);
  }
  void check(const plan::AccumulateT &op) const {
    flat(".in", op.in, op.elements, plan::DType::f32);
    flat(".out", op.out, op.elements, plan::DType::f32);
  }
  void check(const plan::AddT &op) const {
    flat(".sum", op.sum, op.elements, plan::DType::f32);
    flat(".in", op.in, op.elements, plan::DType::f32);
    flat(".out", op.out, op.elements, plan::DType::f32);
  }
  void check(const plan::ClipGradientsT &op) const {
    if (!(op.maxNorm > 0))
      failCheck(where + ".max_norm", "expected a positive number");
  }
  void check(const plan::ShardUpdateT &op) const;
  void check(const plan::AllGatherT &op) const {
    checkCopy(op.in, op.out, plan.ranks(toAxis(op.axis)),
              ", one 'in' per rank");
  }
  void check(const plan::ReduceScatterT &op) const;
  void check(const plan::CacheCopyT &op) const {
    checkCopy(op.in, op.out, 1, ", the bytes of 'in'");
  }
  void check(const plan::EventT &op) const {
    checkIndex(where + ".event", op.event, plan.numEvents, "events");
  }

  void checkArgument(const plan::ArgumentT &argument,
                     const std::string &path) const;
  void checkBucket(std::optional<uint32_t> bucket) const {
    if (bucket && *bucket >= plan.buckets.size())
      checkIndex(where + ".bucket", *bucket, plan.buckets.size(), "buckets");
  }
  void checkSlot(const char *field, uint64_t slot) const {
    if (slot >= plan.slots.size())
      checkIndex(where + field, slot, plan.slots.size(), "slots");
  }
  /// Returns false for -1, which stands for no slot. Refuses what is less.
  bool isSlot(const char *field, int32_t slot) const {
    if (slot < -1)
      failCheck(where + field, "expected an integer of at least -1, got ",
                slot);
    return slot != -1;
  }
  void checkTransient(const char *field, size_t slot,
                      const char *purpose) const {
    checkSlot(field, slot);
    if (plan.slots[slot]->kind != plan::SlotKind::transient)
      failCheck(where + field, "slot ", slot,
                " is not transient, so it cannot be ", purpose);
  }
  void flat(const char *field, const plan::Buf &buf, uint64_t elements,
            plan::DType dtype) const {
    checkFlat(plan, where + field, buf, elements, dtype);
  }
  /// `out` is `count` times as large as `in`.
  void checkCopy(const plan::Buf &in, const plan::Buf &out, uint64_t count,
                 const char *what) const {
    checkBuf(plan, where + ".in", in);
    checkBuf(plan, where + ".out", out);
    checkEqual(where + ".out.bytes", in.bytes() * count, out.bytes(), what);
  }

  const StepPlan &plan;
  const std::string where;
};

void OpChecker::checkArgument(const plan::ArgumentT &argument,
                              const std::string &path) const {
  using Kind = plan::ArgumentKind;
  auto checkOne = [&](const char *field, size_t count) {
    if (count != 1)
      failCheck(where + path + field, "expected one value, got ", count);
  };
  auto checkBools = [&] {
    for (int64_t value : argument.integers)
      if (value != 0 && value != 1)
        failCheck(where + path + ".integers", "expected 0 or 1, got ", value);
  };
  switch (argument.kind) {
  case Kind::tensor:
    checkOne(".slots", argument.slots.size());
    if (argument.slots[0] < 0)
      failCheck(where + path + ".slots",
                "expected an integer of at least 0, got ", argument.slots[0]);
    return checkSlot(".args", argument.slots[0]);
  case Kind::tensors:
    for (int32_t slot : argument.slots)
      if (isSlot(".args", slot))
        checkSlot(".args", slot);
    return;
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

void OpChecker::check(const plan::ShardUpdateT &op) const {
  const plan::BucketT &bucket = *plan.buckets[op.bucket];
  auto needs = [&](plan::StateRole role) {
    if (!findState(bucket, role))
      failCheck(where, "bucket '", bucket.name, "' has no state '",
                plan::EnumNameStateRole(role), "'");
  };
  if (!bucket.trainable)
    failCheck(where, "bucket '", bucket.name, "' is frozen");
  needs(plan::StateRole::grad);
  if (plan.optimizer.Asadamw()) {
    needs(plan::StateRole::exp_avg);
    needs(plan::StateRole::exp_avg_sq);
  } else if (plan.optimizer.Assgd()->momentum != 0) {
    needs(plan::StateRole::momentum_buffer);
  }
}

void OpChecker::check(const plan::ReduceScatterT &op) const {
  uint64_t ranks = plan.ranks(toAxis(op.axis));
  if (op.elements % ranks != 0)
    failCheck(where + ".elements", "expected a multiple of ", ranks, ", got ",
              op.elements);
  flat(".in", op.in, op.elements, op.inType);
  flat(".out", op.out, op.elements / ranks, op.outType);
  if (op.scratch)
    flat(".scratch", *op.scratch, op.elements, op.inType);
  else if (ranks > 1)
    failCheck(where, "'scratch' is missing; a reduction over ", ranks,
              " ranks needs it");
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
          failCheck(at("ops", i) + ".stream", "expected '",
                    EnumNameStream(first), "', as of the first ",
                    EnumNameOpBody(kind), " over this axis, got '",
                    EnumNameStream(body.stream), "'");
      }
    });
  }
}

} // namespace

void checkOps(const StepPlan &plan) {
  for (size_t i = 0; i < plan.ops.size(); ++i)
    visitBody(*plan.ops[i], OpChecker(plan, i));
  checkCommunicators(plan);
}

} // namespace fcdp
