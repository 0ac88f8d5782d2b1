// SPDX-License-Identifier: Apache-2.0
#include "step/Step.h"

#include "step/Pool.h"
#include "step/PreparedOp.h"
#include "step/StepObject.h"

#include <ATen/Context.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <cstring>
#include <stdexcept>

namespace fcdp {

struct Step::Impl {
  Impl(const StepObject &object, Backend &backend, Place place)
      : object(object),
        state{object.manifest(), backend, place, {}, {}, {}, {}, {}, {}} {}

  const StepObject &object;
  Pool pool;
  StepState state;
  std::vector<std::unique_ptr<PreparedOp>> ops;
  /// The first error, or empty.
  std::string error;
};

namespace {

/// While it lives, this thread computes without autograd, in the pool.
struct ComputeScope {
  explicit ComputeScope(Pool &pool) : poolScope(pool) {}
  at::AutoDispatchBelowADInplaceOrView belowAutograd;
  at::NoGradGuard noGrad;
  Pool::Scope poolScope;
};

std::string describeError(const std::exception &error) {
  if (auto *torchError = dynamic_cast<const c10::Error *>(&error))
    return torchError->what_without_backtrace();
  return error.what();
}

std::span<std::byte> bytesOf(const at::Tensor &tensor) {
  return {static_cast<std::byte *>(tensor.mutable_data_ptr()), tensor.nbytes()};
}

at::Tensor bindSlot(const Slot &slot, StepState &state) {
  if (auto *input = std::get_if<InputSlot>(&slot))
    return state.inputs[input->input];
  if (auto *buffer = std::get_if<BufferSlot>(&slot))
    return state.buffers[buffer->buffer];
  if (auto *planned = std::get_if<PlannedSlot>(&slot))
    return tensorOver(state.address(planned->buf), planned->shape,
                      planned->dtype);
  return {};
}

void makeInputs(StepState &state) {
  for (const InputSpec &input : state.manifest.inputs)
    state.inputs.push_back(at::zeros(input.shape, toScalarType(input.dtype)));
}

void makeBuffers(StepState &state, std::span<const std::byte> constants) {
  for (const BufferSpec &buffer : state.manifest.buffers) {
    at::Tensor tensor = at::empty(buffer.shape, toScalarType(buffer.dtype));
    if (buffer.constantOffset && tensor.nbytes() != 0)
      std::memcpy(tensor.mutable_data_ptr(),
                  constants.data() + *buffer.constantOffset, tensor.nbytes());
    state.buffers.push_back(std::move(tensor));
  }
}

void clearState(StepState &state, const std::optional<TypedBuf> &buf) {
  if (buf && buf->bytes != 0)
    std::memset(state.address(*buf), 0, buf->bytes);
}

void makeOptimizerState(StepState &state) {
  for (const Bucket &bucket : state.manifest.buckets) {
    state.updates.push_back({at::zeros({}, at::kFloat), true});
    clearState(state, bucket.expAvg);
    clearState(state, bucket.expAvgSq);
    clearState(state, bucket.momentumBuffer);
  }
}

/// Most arguments that one operator has; the stack never grows in a step.
constexpr size_t kStackReserve = 64;

} // namespace

Step::Step(const StepObject &object, Backend &backend,
           const StepOptions &options)
    : impl(std::make_unique<Impl>(object, backend, options.place)) {
  const Manifest &manifest = object.manifest();
  at::manual_seed(options.seed + worldRank(manifest.mesh, options.place));
  StepState &state = impl->state;
  at::NoGradGuard noGrad;
  makeInputs(state);
  makeBuffers(state, object.constants());
  makeOptimizerState(state);
  for (const Slot &slot : manifest.slots)
    state.slots.push_back(bindSlot(slot, state));
  state.stack.reserve(kStackReserve);
  state.losses.reserve(manifest.microBatches);
  for (const Op &op : manifest.ops) {
    try {
      impl->ops.push_back(prepare(op, state));
    } catch (const std::exception &error) {
      throw std::runtime_error(object.path() + ": " + op.what + ": " +
                               describeError(error));
    }
  }
}

Step::~Step() = default;

std::span<std::byte> Step::input(size_t index) {
  return bytesOf(impl->state.inputs[index]);
}

std::span<std::byte> Step::buffer(size_t index) {
  return bytesOf(impl->state.buffers[index]);
}

std::span<std::byte> Step::shard(size_t bucket) {
  const TypedBuf &shard = *impl->state.manifest.buckets[bucket].shard;
  return {impl->state.address(shard), shard.bytes};
}

void Step::throwIfFailed() const {
  if (!impl->error.empty())
    throw std::runtime_error(impl->error);
  if (impl->state.backend.failed())
    throw std::runtime_error(impl->state.backend.failure());
}

void Step::call(const std::string &function) {
  impl->object.function(function)(this);
  throwIfFailed();
}

void Step::init() {
  ComputeScope scope(impl->pool);
  call("init");
  impl->state.backend.synchronize();
  throwIfFailed();
}

namespace {

/// Which of the family runs micro-batch k of a step.
const char *functionOf(int64_t k, int64_t microBatches) {
  if (microBatches == 1)
    return "only_microbatch";
  if (k == 0)
    return "first_microbatch";
  return k + 1 == microBatches ? "last_microbatch" : "next_microbatch";
}

} // namespace

std::vector<double> Step::run(const std::function<void(int64_t)> &fillInputs) {
  StepState &state = impl->state;
  const Manifest &manifest = state.manifest;
  state.losses.clear();
  impl->pool.beginStep();
  for (int64_t k = 0; k < manifest.microBatches; ++k) {
    fillInputs(k);
    ComputeScope scope(impl->pool);
    call(functionOf(k, manifest.microBatches));
  }
  {
    ComputeScope scope(impl->pool);
    call("update");
  }
  state.backend.synchronize();
  throwIfFailed();
  for (size_t slot = 0; slot < manifest.slots.size(); ++slot)
    if (std::holds_alternative<TransientSlot>(manifest.slots[slot]))
      state.slots[slot].reset();
  impl->pool.endStep();
  if (state.losses.size() != size_t(manifest.microBatches))
    throw std::runtime_error(impl->object.path() +
                             ": expected one loss per micro-batch, " +
                             std::to_string(manifest.microBatches) + ", got " +
                             std::to_string(state.losses.size()));
  return state.losses;
}

Step::Memory Step::memory() const {
  const StepState &state = impl->state;
  uint64_t bytes = state.manifest.deviceBytes + impl->pool.peakBytes();
  for (const auto *tensors : {&state.inputs, &state.buffers})
    for (const at::Tensor &tensor : *tensors)
      bytes += tensor.nbytes();
  return {bytes, impl->pool.systemAllocations()};
}

void Step::execute(int64_t index, OpKind kind) noexcept {
  if (!impl->error.empty())
    return;
  const std::vector<Op> &ops = impl->state.manifest.ops;
  if (index < 0 || size_t(index) >= ops.size() || ops[index].kind != kind) {
    impl->error = impl->object.path() + ": the code calls " + name(kind) +
                  " with op " + std::to_string(index) +
                  ", which the manifest does not have: code and manifest do "
                  "not belong together";
    return;
  }
  try {
    impl->ops[index]->run(impl->state);
    if (kind == OpKind::Wait && impl->state.backend.failed())
      impl->error = impl->state.backend.failure();
  } catch (const std::exception &error) {
    impl->error = std::string(name(kind)) + ": " + ops[index].what + ": " +
                  describeError(error);
  }
}

} // namespace fcdp
