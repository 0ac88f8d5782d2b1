// SPDX-License-Identifier: Apache-2.0
//
// Collectives, copies, sums and events: the backend queues them on a stream.
#include "operators/PreparedOp.h"

namespace fcdp {

namespace {

/// Used by the issuing thread only, as are the classes below.
class AllGather final : public PreparedOp {
public:
  AllGather(const ops::AllGather &op, const char *what, StepState &state)
      : collective{op.axis,
                   op.stream,
                   state.address(op.in),
                   state.address(op.out),
                   /*scratch=*/nullptr,
                   op.in.bytes,
                   DType::U8,
                   DType::U8,
                   what} {}
  void run(StepState &state) override { state.backend.allGather(collective); }

private:
  Collective collective;
};

class ReduceScatter final : public PreparedOp {
public:
  ReduceScatter(const ops::ReduceScatter &op, const char *what,
                StepState &state)
      : collective{op.axis,
                   op.stream,
                   state.address(op.in),
                   state.address(op.out),
                   op.scratch ? state.address(*op.scratch) : nullptr,
                   op.in.bytes,
                   op.inType,
                   op.outType,
                   what} {}
  void run(StepState &state) override {
    state.backend.reduceScatter(collective);
  }

private:
  Collective collective;
};

class CacheCopy final : public PreparedOp {
public:
  CacheCopy(const ops::CacheCopy &op, StepState &state)
      : stream(op.stream), in(state.address(op.in)), out(state.address(op.out)),
        bytes(op.in.bytes) {}
  void run(StepState &state) override {
    state.backend.copy(stream, out, in, bytes);
  }

private:
  StreamId stream;
  const std::byte *in;
  std::byte *out;
  size_t bytes;
};

class Accumulate final : public PreparedOp {
public:
  Accumulate(const ops::Accumulate &op, StepState &state)
      : stream(op.stream), in(state.address(op.in)), out(state.address(op.out)),
        elements(op.elements), add(op.add) {}
  void run(StepState &state) override {
    if (add)
      state.backend.add(stream, reinterpret_cast<float *>(out),
                        reinterpret_cast<const float *>(in), elements);
    else
      state.backend.copy(stream, out, in, elements * sizeof(float));
  }

private:
  StreamId stream;
  const std::byte *in;
  std::byte *out;
  size_t elements;
  bool add;
};

class Record final : public PreparedOp {
public:
  explicit Record(const ops::Event &op) : op(op) {}
  void run(StepState &state) override {
    state.backend.record(op.event, op.stream);
  }

private:
  ops::Event op;
};

class Wait final : public PreparedOp {
public:
  explicit Wait(const ops::Event &op) : op(op) {}
  void run(StepState &state) override {
    state.backend.wait(op.event, op.stream);
  }

private:
  ops::Event op;
};

} // namespace

std::unique_ptr<PreparedOp> prepareQueued(const Op &op, StepState &state) {
  if (auto *gather = std::get_if<ops::AllGather>(&op.body))
    return std::make_unique<AllGather>(*gather, op.what.c_str(), state);
  if (auto *reduce = std::get_if<ops::ReduceScatter>(&op.body))
    return std::make_unique<ReduceScatter>(*reduce, op.what.c_str(), state);
  if (auto *copy = std::get_if<ops::CacheCopy>(&op.body))
    return std::make_unique<CacheCopy>(*copy, state);
  if (auto *sum = std::get_if<ops::Accumulate>(&op.body))
    return std::make_unique<Accumulate>(*sum, state);
  const auto &event = std::get<ops::Event>(op.body);
  if (op.kind == OpKind::Record)
    return std::make_unique<Record>(event);
  return std::make_unique<Wait>(event);
}

} // namespace fcdp
