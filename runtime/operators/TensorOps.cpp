// SPDX-License-Identifier: Apache-2.0
//
// Prepares the operations on the compute stream that are no ATen calls of the
// graph.
#include "operators/PreparedOp.h"

#include <ATen/ops/add.h>

#include <stdexcept>

namespace fcdp {

namespace {

std::string shapeOf(const at::Tensor &tensor) {
  return toString(Shape(tensor.sizes().begin(), tensor.sizes().end()));
}

/// Copies a slot's tensor; `copy_` alone would broadcast.
void copySlot(const at::Tensor &target, const at::Tensor &source, size_t slot) {
  if (!source.defined())
    throw std::runtime_error("slot " + std::to_string(slot) +
                             " holds no tensor");
  if (source.sizes() != target.sizes())
    throw std::runtime_error("expected a tensor of shape " + shapeOf(target) +
                             ", got " + shapeOf(source) + " in slot " +
                             std::to_string(slot));
  target.copy_(source);
}

/// Used by the issuing thread only, as are the classes below.
class WriteBuffer final : public PreparedOp {
public:
  explicit WriteBuffer(const plan::WriteBufferT &op) : op(op) {}
  void run(StepState &state) override {
    copySlot(state.buffers[op.buffer], state.slots[op.slot], op.slot);
    state.drop(op.free);
  }

private:
  const plan::WriteBufferT &op;
};

class KeepLoss final : public PreparedOp {
public:
  explicit KeepLoss(const plan::LossT &op) : op(op) {}
  void run(StepState &state) override {
    const at::Tensor &loss = state.slots[op.slot];
    if (!loss.defined() || loss.numel() != 1)
      throw std::runtime_error("expected a loss of one element, got " +
                               (loss.defined() ? "shape " + shapeOf(loss)
                                               : std::string("no tensor")));
    LossLog &log = state.otherLosses ? *state.otherLosses : state.losses;
    if (state.lossWeightNumber == 0)
      log.keepZero();
    else
      log.keep(loss);
    state.drop(op.free);
  }

private:
  const plan::LossT &op;
};

class Cast final : public PreparedOp {
public:
  Cast(const plan::CastT &op, StepState &state)
      : in(state.flat(op.in, op.elements, toDType(op.inType))),
        out(state.flat(op.out, op.elements, toDType(op.outType))) {}
  void run(StepState &) override { out.copy_(in); }

private:
  at::Tensor in, out;
};

class Pack final : public PreparedOp {
public:
  Pack(const plan::PackBucketT &op, StepState &state) : op(op) {
    for (const plan::Buf &buf : op.zero)
      padding.push_back(state.flat(buf, int64_t(buf.bytes()), DType::U8));
    if (op.whole)
      whole = state.flat(*op.whole, int64_t(op.whole->bytes()), DType::U8);
  }
  void run(StepState &state) override {
    if (whole.defined() && state.lossWeightNumber == 0) {
      // Gradients may be NaN if a mean is over no elements.
      whole.zero_();
      return state.drop(op.free);
    }
    for (const plan::PackMember &member : op.members)
      copySlot(state.slots[member.planned()], state.slots[member.source()],
               member.source());
    for (at::Tensor &bytes : padding)
      bytes.zero_();
    state.drop(op.free);
  }

private:
  const plan::PackBucketT &op;
  std::vector<at::Tensor> padding;
  /// Undefined unless losses are weighted.
  at::Tensor whole;
};

class Accumulate final : public PreparedOp {
public:
  Accumulate(const plan::AccumulateT &op, StepState &state)
      : in(state.flat(op.in, op.elements, DType::F32)),
        out(state.flat(op.out, op.elements, DType::F32)),
        add(op.mode == plan::AccumulateMode::add) {}
  void run(StepState &) override {
    if (add)
      out.add_(in);
    else
      out.copy_(in);
  }

private:
  at::Tensor in, out;
  bool add;
};

/// Accumulates on the stream of the reduction before it.
class QueuedAccumulate final : public PreparedOp {
public:
  QueuedAccumulate(const plan::AccumulateT &op, StepState &state)
      : stream(toStream(op.stream)), in(state.address(op.in)),
        out(state.address(op.out)), elements(op.elements),
        add(op.mode == plan::AccumulateMode::add) {}
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

class Add final : public PreparedOp {
public:
  Add(const plan::AddT &op, StepState &state)
      : sum(state.flat(op.sum, op.elements, DType::F32)),
        in(state.flat(op.in, op.elements, DType::F32)),
        out(state.flat(op.out, op.elements, DType::F32)) {}
  void run(StepState &) override { at::add_out(out, sum, in); }

private:
  at::Tensor sum, in, out;
};

} // namespace

PreparedOpPtr prepare(const plan::WriteBufferT &op, const char *, StepState &) {
  return std::make_unique<WriteBuffer>(op);
}

PreparedOpPtr prepare(const plan::LossT &op, const char *, StepState &) {
  return std::make_unique<KeepLoss>(op);
}

PreparedOpPtr prepare(const plan::CastT &op, const char *, StepState &state) {
  return std::make_unique<Cast>(op, state);
}

PreparedOpPtr prepare(const plan::PackBucketT &op, const char *,
                      StepState &state) {
  return std::make_unique<Pack>(op, state);
}

PreparedOpPtr prepare(const plan::AccumulateT &op, const char *,
                      StepState &state) {
  if (op.stream != plan::Stream::compute)
    return std::make_unique<QueuedAccumulate>(op, state);
  return std::make_unique<Accumulate>(op, state);
}

PreparedOpPtr prepare(const plan::AddT &op, const char *, StepState &state) {
  return std::make_unique<Add>(op, state);
}

std::optional<uint64_t> countBytes(const plan::WriteBufferT &,
                                   const StepPlan &) {
  return {};
}

std::optional<uint64_t> countBytes(const plan::LossT &, const StepPlan &) {
  return {};
}

std::optional<uint64_t> countBytes(const plan::CastT &op, const StepPlan &) {
  return op.out.bytes();
}

std::optional<uint64_t> countBytes(const plan::AccumulateT &op,
                                   const StepPlan &) {
  return op.out.bytes();
}

std::optional<uint64_t> countBytes(const plan::AddT &op, const StepPlan &) {
  return op.out.bytes();
}

std::optional<uint64_t> countBytes(const plan::PackBucketT &op,
                                   const StepPlan &plan) {
  uint64_t bytes = 0;
  for (const plan::Buf &buf : op.zero)
    bytes += buf.bytes();
  for (const plan::PackMember &member : op.members)
    bytes += plan.slots[member.planned()]->buf->bytes();
  return bytes;
}

} // namespace fcdp
