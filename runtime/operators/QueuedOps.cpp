// SPDX-License-Identifier: Apache-2.0
//
// Prepares collectives, copies and events, which the backend queues on a
// stream.
#include "operators/MessageOps.h"

#include "core/StateRules.h"

#include <algorithm>
#include <array>
#include <deque>

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

/// The same for a device with memory of its own, through a window of host
/// memory. While the stream copies one part, its thread reads the next one from
/// the file, or writes the one before.
class WindowedFileCopy final : public PreparedOp {
public:
  WindowedFileCopy(const plan::CacheCopyT &op, StepState &state)
      : stream(toStream(op.stream)),
        isRead(op.in.arena() == plan::Arena::file) {
    const plan::Buf &file = isRead ? op.in : op.out;
    const plan::Buf &window = *state.plan.fileWindow;
    std::byte *device = state.address(isRead ? op.out : op.in);
    const uint64_t most = window.bytes() / kFileWindowParts;
    std::byte *own = state.address(window) + (isRead ? 0 : kSlots) * most;
    for (uint64_t done = 0; done < op.in.bytes(); done += most)
      parts.emplace_back(*state.files, isRead, file.offset() + done,
                         std::span(own + parts.size() % kSlots * most,
                                   std::min(most, op.in.bytes() - done)),
                         device + done);
  }
  void run(StepState &state) override {
    if (isRead)
      read(state.backend);
    else
      write(state.backend);
  }

private:
  static constexpr size_t kSlots = kFileWindowParts / 2;

  struct Part final : HostTask {
    Part(StateFile &files, bool isRead, uint64_t offset,
         std::span<std::byte> slot, std::byte *device)
        : files(files), isRead(isRead), offset(offset), slot(slot),
          device(device) {}
    void run() override {
      if (isRead)
        files.read(offset, slot);
      else
        files.write(offset, slot);
    }

    StateFile &files;
    const bool isRead;
    const uint64_t offset;
    const std::span<std::byte> slot;
    std::byte *const device;
  };

  /// The copies from a slot, also those of the operation before, come before
  /// the next read into it in the stream.
  void read(Backend &backend) {
    std::array<uint32_t, kSlots> started{};
    for (size_t i = 0; i < std::min(kSlots, parts.size()); ++i)
      started[i] = backend.start(stream, parts[i]);
    for (size_t i = 0; i < parts.size(); ++i) {
      uint32_t &number = started[i % kSlots];
      backend.await(stream, number);
      backend.copy(stream, parts[i].device, parts[i].slot.data(),
                   parts[i].slot.size());
      if (i + kSlots < parts.size())
        number = backend.start(stream, parts[i + kSlots]);
    }
  }
  /// A slot is written before the next copy into it.
  void write(Backend &backend) {
    std::array<uint32_t, kSlots> started{};
    for (size_t i = 0; i < parts.size(); ++i) {
      uint32_t &number = started[i % kSlots];
      if (i >= kSlots)
        backend.await(stream, number);
      backend.copy(stream, parts[i].slot.data(), parts[i].device,
                   parts[i].slot.size());
      number = backend.start(stream, parts[i]);
    }
    if (!parts.empty())
      backend.await(stream, started[(parts.size() - 1) % kSlots]);
  }

  const StreamId stream;
  const bool isRead;
  std::deque<Part> parts;
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
    return state.device.is_cpu()
               ? PreparedOpPtr(std::make_unique<FileCopy>(op, state))
               : std::make_unique<WindowedFileCopy>(op, state);
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
