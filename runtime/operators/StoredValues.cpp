// SPDX-License-Identifier: Apache-2.0
//
// Prepares copies of values of the forward pass to host memory and back.
#include "operators/PreparedOp.h"

#include <ATen/ops/as_strided.h>

#include <stdexcept>

namespace fcdp {

namespace {

/// Used by the issuing thread only, as are the classes below.
class StoreValue final : public PreparedOp {
public:
  StoreValue(const plan::StoreValueT &op, StepState &state)
      : op(op), stream(toStream(op.stream)), out(state.address(op.out)) {}
  void run(StepState &state) override {
    const at::Tensor &value = state.slots[op.slot];
    if (!value.defined() || uint64_t(value.nbytes()) != op.out.bytes())
      throw std::runtime_error("expected a value of " +
                               std::to_string(op.out.bytes()) +
                               " bytes in slot " + std::to_string(op.slot));
    if (value.is_contiguous()) {
      state.storedStrides.erase(op.out.offset());
    } else {
      // The bytes are copied as they are, so that operators get the same
      // strides, and with them the same bits, as without the copies.
      if (!value.is_non_overlapping_and_dense())
        throw std::runtime_error(
            "expected a value without gaps in its memory to store on the "
            "host; compile with '--activations=device' or 'fcdp.on_host = "
            "array<i64>' on its call");
      state.storedStrides[op.out.offset()] = value.strides().vec();
    }
    state.backend.copy(stream, out,
                       static_cast<const std::byte *>(value.const_data_ptr()),
                       op.out.bytes());
  }

private:
  const plan::StoreValueT &op;
  StreamId stream;
  std::byte *out;
};

class DropValue final : public PreparedOp {
public:
  explicit DropValue(const plan::DropValueT &op) : op(op) {}
  void run(StepState &state) override { state.drop(op.free); }

private:
  const plan::DropValueT &op;
};

class LoadValue final : public PreparedOp {
public:
  LoadValue(const plan::LoadValueT &op, StepState &state)
      : op(op), stream(toStream(op.stream)), in(state.address(op.in)),
        out(state.address(*state.plan.slots[op.slot]->buf)),
        contiguous(tensorOver(out, state.plan.slots[op.slot]->shape,
                              toDType(*state.plan.slots[op.slot]->dtype),
                              state.device)) {}
  void run(StepState &state) override {
    // The slot is of this load alone.
    auto strides = state.storedStrides.find(op.in.offset());
    state.slots[op.slot] =
        strides == state.storedStrides.end()
            ? contiguous
            : at::as_strided(contiguous, contiguous.sizes(), strides->second);
    state.backend.copy(stream, out, in, op.in.bytes());
  }

private:
  const plan::LoadValueT &op;
  StreamId stream;
  const std::byte *in;
  std::byte *out;
  at::Tensor contiguous;
};

} // namespace

PreparedOpPtr prepare(const plan::StoreValueT &op, const char *,
                      StepState &state) {
  return std::make_unique<StoreValue>(op, state);
}

PreparedOpPtr prepare(const plan::DropValueT &op, const char *, StepState &) {
  return std::make_unique<DropValue>(op);
}

PreparedOpPtr prepare(const plan::LoadValueT &op, const char *,
                      StepState &state) {
  return std::make_unique<LoadValue>(op, state);
}

std::optional<uint64_t> countBytes(const plan::StoreValueT &op,
                                   const StepPlan &) {
  return op.out.bytes();
}

std::optional<uint64_t> countBytes(const plan::DropValueT &, const StepPlan &) {
  return {};
}

std::optional<uint64_t> countBytes(const plan::LoadValueT &op,
                                   const StepPlan &) {
  return op.in.bytes();
}

} // namespace fcdp
