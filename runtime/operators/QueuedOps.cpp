// SPDX-License-Identifier: Apache-2.0
//
// Prepares collectives, copies and events, which the backend queues on a
// stream.
#include "operators/MessageOps.h"

namespace fcdp {

namespace {

/// Used by the issuing thread only, as are the classes below.
class AllGather final : public PreparedOp {
public:
  AllGather(const plan::AllGatherT &op, const char *what, StepState &state)
      : collective(describe(op, what, state)) {}
  void run(StepState &state) override { state.backend.allGather(collective); }

private:
  const Collective collective;
};

class ReduceScatter final : public PreparedOp {
public:
  ReduceScatter(const plan::ReduceScatterT &op, const char *what,
                StepState &state)
      : collective(describe(op, what, state)) {}
  void run(StepState &state) override {
    state.backend.reduceScatter(collective);
  }

private:
  const Collective collective;
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

/// A piece of a state that is read from a file or written to it, on the thread
/// of a stream.
class FileCopy final : public PreparedOp, private HostTask {
public:
  FileCopy(const plan::CacheCopyT &op, StepState &state)
      : stream(toStream(op.stream)), files(*state.files),
        isRead(op.in.arena() == plan::Arena::file),
        offset((isRead ? op.in : op.out).offset()),
        memory(state.address(isRead ? op.out : op.in), op.in.bytes()) {}
  void run(StepState &state) override {
    if (!memory.empty())
      state.backend.call(stream, *this, memory.size());
  }

private:
  void run() override {
    if (isRead)
      files.read(offset, memory);
    else
      files.write(offset, memory);
  }

  const StreamId stream;
  StateFile &files;
  const bool isRead;
  const uint64_t offset;
  const std::span<std::byte> memory;
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

Collective describe(const plan::AllGatherT &op, const char *what,
                    StepState &state) {
  return {.axis = toAxis(op.axis),
          .stream = toStream(op.stream),
          .in = state.address(op.in),
          .out = state.address(op.out),
          .bytes = op.in.bytes(),
          .what = what};
}

Collective describe(const plan::ReduceScatterT &op, const char *what,
                    StepState &state) {
  return {.axis = toAxis(op.axis),
          .stream = toStream(op.stream),
          .in = state.address(op.in),
          .out = state.address(op.out),
          .scratch = op.scratch ? state.address(*op.scratch) : nullptr,
          .bytes = op.in.bytes(),
          .inType = toDType(op.inType),
          .outType = toDType(op.outType),
          .what = what};
}

PreparedOpPtr prepare(const plan::AllGatherT &op, const char *what,
                      StepState &state) {
  if (op.messages)
    return prepareWithMessages(op, what, state);
  return std::make_unique<AllGather>(op, what, state);
}

PreparedOpPtr prepare(const plan::ReduceScatterT &op, const char *what,
                      StepState &state) {
  if (op.messages)
    return prepareWithMessages(op, what, state);
  return std::make_unique<ReduceScatter>(op, what, state);
}

PreparedOpPtr prepare(const plan::CacheCopyT &op, const char *,
                      StepState &state) {
  if (op.in.arena() == plan::Arena::file || op.out.arena() == plan::Arena::file)
    return std::make_unique<FileCopy>(op, state);
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

std::optional<uint64_t> countBytes(const plan::AllGatherT &op,
                                   const StepPlan &) {
  return op.in.bytes();
}

std::optional<uint64_t> countBytes(const plan::ReduceScatterT &op,
                                   const StepPlan &plan) {
  return op.in.bytes() / plan.ranks(toAxis(op.axis));
}

std::optional<uint64_t> countBytes(const plan::CacheCopyT &op,
                                   const StepPlan &) {
  return op.in.bytes();
}

} // namespace fcdp
