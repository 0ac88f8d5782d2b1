// SPDX-License-Identifier: Apache-2.0
//
// The operations on the compute stream that are no ATen calls of the graph.
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
  explicit WriteBuffer(const ops::WriteBuffer &op) : op(op) {}
  void run(StepState &state) override {
    copySlot(state.buffers[op.buffer], state.slots[op.slot], op.slot);
    state.drop(op.free);
  }

private:
  const ops::WriteBuffer &op;
};

class KeepLoss final : public PreparedOp {
public:
  explicit KeepLoss(const ops::Loss &op) : op(op) {}
  void run(StepState &state) override {
    const at::Tensor &loss = state.slots[op.slot];
    if (!loss.defined() || loss.numel() != 1)
      throw std::runtime_error("expected a loss of one element, got " +
                               (loss.defined() ? "shape " + shapeOf(loss)
                                               : std::string("no tensor")));
    state.losses.keep(loss);
    state.drop(op.free);
  }

private:
  const ops::Loss &op;
};

class Cast final : public PreparedOp {
public:
  Cast(const ops::Cast &op, StepState &state)
      : in(state.flat(op.in, op.elements, op.inType)),
        out(state.flat(op.out, op.elements, op.outType)) {}
  void run(StepState &) override { out.copy_(in); }

private:
  at::Tensor in, out;
};

class Pack final : public PreparedOp {
public:
  Pack(const ops::Pack &op, StepState &state) : op(op) {
    for (const Buf &buf : op.zero)
      padding.push_back(state.flat(buf, int64_t(buf.bytes), DType::U8));
  }
  void run(StepState &state) override {
    for (const ops::Pack::Member &member : op.members)
      copySlot(state.slots[member.planned], state.slots[member.source],
               member.source);
    for (at::Tensor &bytes : padding)
      bytes.zero_();
    state.drop(op.free);
  }

private:
  const ops::Pack &op;
  std::vector<at::Tensor> padding;
};

class Accumulate final : public PreparedOp {
public:
  Accumulate(const ops::Accumulate &op, StepState &state)
      : in(state.flat(op.in, op.elements, DType::F32)),
        out(state.flat(op.out, op.elements, DType::F32)), add(op.add) {}
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

class Add final : public PreparedOp {
public:
  Add(const ops::Add &op, StepState &state)
      : sum(state.flat(op.sum, op.elements, DType::F32)),
        in(state.flat(op.in, op.elements, DType::F32)),
        out(state.flat(op.out, op.elements, DType::F32)) {}
  void run(StepState &) override { at::add_out(out, sum, in); }

private:
  at::Tensor sum, in, out;
};

} // namespace

std::unique_ptr<PreparedOp> prepareTensorOp(const ops::WriteBuffer &op,
                                            StepState &) {
  return std::make_unique<WriteBuffer>(op);
}

std::unique_ptr<PreparedOp> prepareTensorOp(const ops::Loss &op, StepState &) {
  return std::make_unique<KeepLoss>(op);
}

std::unique_ptr<PreparedOp> prepareTensorOp(const ops::Cast &op,
                                            StepState &state) {
  return std::make_unique<Cast>(op, state);
}

std::unique_ptr<PreparedOp> prepareTensorOp(const ops::Pack &op,
                                            StepState &state) {
  return std::make_unique<Pack>(op, state);
}

std::unique_ptr<PreparedOp> prepareTensorOp(const ops::Accumulate &op,
                                            StepState &state) {
  return std::make_unique<Accumulate>(op, state);
}

std::unique_ptr<PreparedOp> prepareTensorOp(const ops::Add &op,
                                            StepState &state) {
  return std::make_unique<Add>(op, state);
}

} // namespace fcdp
