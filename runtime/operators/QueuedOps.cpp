// SPDX-License-Identifier: Apache-2.0
//
// Prepares collectives, copies and events, which the backend queues on a
// stream.
#include "operators/PreparedOp.h"
#include "plan/StatePlaces.h"

namespace fcdp {

namespace {

/// Used by the issuing thread only, as are the classes below.
class AllGather final : public PreparedOp {
public:
  AllGather(const plan::AllGatherT &op, const char *what, StepState &state)
      : collective{.axis = toAxis(op.axis),
                   .stream = toStream(op.stream),
                   .in = state.address(op.in),
                   .out = state.address(op.out),
                   .bytes = op.in.bytes(),
                   .what = what} {}
  void run(StepState &state) override { state.backend.allGather(collective); }

private:
  Collective collective;
};

/// A gather that sends differences from the values that the bucket's last
/// gather sent.
class DeltaGather final : public PreparedOp {
public:
  DeltaGather(const plan::AllGatherT &op, const char *what, StepState &state)
      : gathers(state.gathers[op.bucket]),
        collective{.axis = toAxis(op.axis),
                   .stream = toStream(op.stream),
                   .in = state.address(op.in),
                   .out = state.address(op.out),
                   .bytes = op.in.bytes(),
                   .inType = toDType(state.plan.buckets[op.bucket]->wire),
                   .outType = toDType(state.plan.buckets[op.bucket]->wire),
                   .what = what,
                   .code = WireCode::Delta,
                   .messages = state.address(*op.messages),
                   .reference =
                       state.address(findState(*state.plan.buckets[op.bucket],
                                               plan::StateRole::host)
                                         ->buf())} {}
  void run(StepState &state) override {
    collective.generation = gathers++;
    state.backend.allGather(collective);
  }

private:
  uint64_t &gathers;
  Collective collective;
};

WireCode toWireCode(plan::Wire wire) {
  switch (wire) {
  case plan::Wire::raw:
    return WireCode::Raw;
  case plan::Wire::delta:
    return WireCode::Delta;
  case plan::Wire::coded:
    return WireCode::Coded;
  case plan::Wire::int8:
    return WireCode::Int8;
  case plan::Wire::int4:
    return WireCode::Int4;
  }
  return WireCode::Raw;
}

/// Returns the residual of the bucket's messages, or null if they are exact.
float *findResidual(const plan::ReduceScatterT &op, StepState &state) {
  if (op.wire != plan::Wire::int8 && op.wire != plan::Wire::int4)
    return nullptr;
  const plan::State *residual =
      findState(*state.plan.buckets[op.bucket], plan::StateRole::residual);
  return reinterpret_cast<float *>(state.address(residual->buf()));
}

class ReduceScatter final : public PreparedOp {
public:
  ReduceScatter(const plan::ReduceScatterT &op, const char *what,
                StepState &state)
      : padding(paddingOfSlice(state.plan, op.bucket, state.place.local)),
        collective{.axis = toAxis(op.axis),
                   .stream = toStream(op.stream),
                   .in = state.address(op.in),
                   .out = state.address(op.out),
                   .scratch = op.scratch ? state.address(*op.scratch) : nullptr,
                   .bytes = op.in.bytes(),
                   .inType = toDType(op.inType),
                   .outType = toDType(op.outType),
                   .what = what,
                   .code = toWireCode(op.wire),
                   .messages =
                       op.messages ? state.address(*op.messages) : nullptr,
                   .residual = findResidual(op, state),
                   .padding = padding.data(),
                   .numPaddings = padding.size()} {}
  void run(StepState &state) override {
    state.backend.reduceScatter(collective);
  }

private:
  const std::vector<PaddingRange> padding;
  Collective collective;
};

class CacheCopy final : public PreparedOp {
public:
  CacheCopy(const plan::CacheCopyT &op, StepState &state)
      : stream(toStream(op.stream)), in(state.address(op.in)),
        out(state.address(op.out)), bytes(op.in.bytes()) {}
  void run(StepState &state) override {
    state.backend.copy(stream, out, in, bytes);
  }

private:
  StreamId stream;
  const std::byte *in;
  std::byte *out;
  size_t bytes;
};

class Record final : public PreparedOp {
public:
  explicit Record(const plan::EventT &op) : op(op) {}
  void run(StepState &state) override {
    state.backend.record(op.event, toStream(op.stream));
  }

private:
  const plan::EventT &op;
};

class Wait final : public PreparedOp {
public:
  explicit Wait(const plan::EventT &op) : op(op) {}
  void run(StepState &state) override {
    state.backend.wait(op.event, toStream(op.stream));
  }

private:
  const plan::EventT &op;
};

} // namespace

PreparedOpPtr prepare(const plan::AllGatherT &op, const char *what,
                      StepState &state) {
  if (op.wire == plan::Wire::delta)
    return std::make_unique<DeltaGather>(op, what, state);
  return std::make_unique<AllGather>(op, what, state);
}

PreparedOpPtr prepare(const plan::ReduceScatterT &op, const char *what,
                      StepState &state) {
  return std::make_unique<ReduceScatter>(op, what, state);
}

PreparedOpPtr prepare(const plan::CacheCopyT &op, StepState &state) {
  return std::make_unique<CacheCopy>(op, state);
}

PreparedOpPtr prepare(const plan::EventT &op, plan::Kind<plan::OpBody::record>,
                      StepState &) {
  return std::make_unique<Record>(op);
}

PreparedOpPtr prepare(const plan::EventT &op, plan::Kind<plan::OpBody::wait>,
                      StepState &) {
  return std::make_unique<Wait>(op);
}

} // namespace fcdp
