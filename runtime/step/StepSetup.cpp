// SPDX-License-Identifier: Apache-2.0
#include "operators/RecordedOp.h"
#include "operators/WarmUp.h"
#include "step/StepImpl.h"

#include <ATen/Context.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <algorithm>
#include <cstring>

namespace fcdp {

namespace {

at::Device deviceOf(const std::optional<CudaDevice> &cuda) {
  return cuda ? at::Device(at::kCUDA, at::DeviceIndex(cuda->index))
              : at::Device(at::kCPU);
}

/// Returns libtorch's name for a CUDA stream that it has not made, whose number
/// is the handle.
std::optional<c10::Stream> streamOf(const std::optional<CudaDevice> &cuda) {
  if (!cuda)
    return std::nullopt;
  return c10::Stream(c10::Stream::UNSAFE, deviceOf(cuda),
                     reinterpret_cast<c10::StreamId>(cuda->computeStream));
}

at::Tensor bindSlot(const plan::SlotT &slot, StepState &state) {
  switch (slot.kind) {
  case plan::SlotKind::input:
    return state.inputs[*slot.index];
  case plan::SlotKind::buffer:
    return state.buffers[*slot.index];
  case plan::SlotKind::planned:
    return tensorOver(state.address(*slot.buf), slot.shape,
                      toDType(*slot.dtype), state.device);
  case plan::SlotKind::loss_scale:
    return state.lossScale;
  case plan::SlotKind::loss_weight:
    return state.lossWeight;
  case plan::SlotKind::transient:
    break;
  }
  return {};
}

/// Makes the inputs, some of which share memory.
void makeInputs(StepState &state) {
  const StepPlan &plan = state.plan;
  auto make = [&](const plan::InputT &input) {
    return at::zeros(input.shape,
                     at::TensorOptions(toScalarType(toDType(input.dtype)))
                         .device(state.device));
  };
  state.inputs.resize(plan.inputs.size());
  for (size_t i = 0; i < state.inputs.size(); ++i)
    if (plan.memoryOfInput(i) == i)
      state.inputs[i] = make(*plan.inputs[i]);
  for (size_t i = 0; i < state.inputs.size(); ++i)
    if (size_t whole = plan.memoryOfInput(i); whole != i) {
      const Shape &shape = plan.inputs[i]->shape;
      state.inputs[i] = state.inputs[whole]
                            .view(-1)
                            .narrow(0, 0, numElements(shape))
                            .view(shape);
    }
}

void makeBuffers(StepState &state, std::span<const std::byte> constants) {
  for (const auto &buffer : state.plan.buffers) {
    at::Tensor tensor =
        at::empty(buffer->shape, toScalarType(toDType(buffer->dtype)));
    if (buffer->constantOffset && tensor.nbytes() != 0)
      std::memcpy(tensor.mutable_data_ptr(),
                  constants.data() + *buffer->constantOffset, tensor.nbytes());
    state.buffers.push_back(tensor.to(state.device));
  }
}

void makeOptimizerState(StepState &state) {
  for (const auto &bucket : state.plan.buckets) {
    state.updates.push_back(
        {at::zeros({}, at::TensorOptions(at::kFloat).device(state.device)), 0});
    for (const plan::State &kept : bucket->states) {
      bool isOfOptimizer = kept.role() == plan::StateRole::master ||
                           plan::isOptimizerState(kept.role());
      const plan::Buf &buf = kept.buf();
      if (!isOfOptimizer || buf.bytes() == 0)
        continue;
      // Space in files begins as zeros.
      if (buf.arena() == plan::Arena::file)
        continue;
      if (buf.arena() == plan::Arena::device)
        state.flat(buf, int64_t(buf.bytes()), DType::U8).zero_();
      else
        std::memset(state.address(buf), 0, buf.bytes());
    }
  }
}

/// An operation that a segment runs.
class InSegment final : public PreparedOp {
public:
  InSegment(GraphSegment &segment, size_t position)
      : segment(segment), position(position) {}
  void run(StepState &state) override { segment.run(position, state); }

private:
  GraphSegment &segment;
  const size_t position;
};

/// The most arguments of an operator, so that the stack never grows in a step.
constexpr size_t kStackReserve = 64;

} // namespace

Step::Impl::Impl(const StepObject &object, Backend &backend,
                 const StepSetup &options)
    : object(object), isNonfiniteAnywhere(options.isNonfiniteAnywhere),
      recorder(options.recorder), graphs(options.graphs),
      computeStream(streamOf(options.cuda)),
      state{.plan = object.plan(),
            .backend = backend,
            .place = options.place,
            .gathers = std::vector<uint64_t>(object.plan().buckets.size()),
            .device = deviceOf(options.cuda)},
      hostCopies(state), fileCopy(state),
      gpuMemory(options.cuda ? options.cuda->memory : nullptr),
      usedBytes(options.cuda ? options.cuda->usedBytes : nullptr) {
  const StepPlan &plan = state.plan;
  for (const auto &function : plan.functions)
    if (isSynchronized(function->role))
      ownPools.try_emplace(function->role, arena(), systemMemory());
  for (size_t i = 0; i < plan.numKinds(); ++i)
    pools.push_back(std::make_unique<ResultPool>(arena(), systemMemory()));
}

Step::Step(const StepObject &object, Backend &backend, const StepSetup &options)
    : impl(std::make_unique<Impl>(object, backend, options)) {
  const StepPlan &plan = object.plan();
  if (options.cuda)
    at::globalContext().lazyInitDevice(at::kCUDA);
  impl->seed = options.seed + worldRank(plan.mesh, options.place);
  at::manual_seed(impl->seed);
  StepState &state = impl->state;
  at::NoGradGuard noGrad;
  StreamScope streamScope(impl->computeStream);
  if (options.cuda)
    warmUpProducts(state.device);
  makeInputs(state);
  makeBuffers(state, object.constants());
  state.files = makeFiles(plan, options.stateFolders);
  makeOptimizerState(state);
  for (at::Tensor *factor : {&state.lossScale, &state.lossWeight})
    *factor = at::ones({}, at::TensorOptions(at::kFloat).device(state.device));
  for (const auto &slot : plan.slots)
    state.slots.push_back(bindSlot(*slot, state));
  state.stack.reserve(kStackReserve);
  state.losses.reserve(kMostUnread, plan.microBatches, state.device);
  impl->otherLosses.reserve(1, 1, state.device);
  state.onNonfinite = options.onNonfinite;
  state.learningRate = plan.learningRate();
  for (size_t i = 0; i < plan.ops.size(); ++i) {
    const std::string &what = plan.descriptions[i];
    try {
      std::unique_ptr<PreparedOp> prepared =
          prepare(*plan.ops[i], what.c_str(), state);
      if (impl->recorder)
        prepared = makeRecorded(std::move(prepared), plan, i, *impl->recorder);
      impl->ops.push_back(std::move(prepared));
    } catch (const std::exception &error) {
      throw wrapError(object.path() + ": " + what + ": ", error);
    }
  }
  impl->findEarlyUpdates();
  if (options.onNonfinite != OnNonfinite::Continue ||
      plan.uses(plan::OpBody::clip_gradients))
    impl->gradientCheck =
        std::make_unique<GradientCheck>(state, kMostUnread, impl->earlyUpdates);
  if (impl->graphs && !impl->recorder)
    impl->makeSegments(*impl->graphs);
}

void Step::stopRecording() {
  if (!impl->recorder)
    return;
  for (std::unique_ptr<PreparedOp> &op : impl->ops)
    op = withoutRecord(std::move(op));
  // The backend still asks it.
  impl->recorder->pause(true);
  impl->recorder = nullptr;
  if (impl->graphs)
    impl->makeSegments(*impl->graphs);
}

Step::~Step() = default;

/// Returns the function that has operation `op`.
static StepFunction findFunction(const StepPlan &plan, size_t op) {
  auto found = std::find_if(plan.functions.begin(), plan.functions.end(),
                            [&](const auto &f) { return op < f->end; });
  return toStepFunction(**found);
}

void Step::Impl::makeSegments(GraphCapture &capture) {
  const StepPlan &plan = object.plan();
  for (OpRange range : findSegments(plan)) {
    StepFunction function = findFunction(plan, range.first);
    if (plan.isShared(function))
      continue;
    auto first = ops.begin() + range.first, end = ops.begin() + range.end;
    std::vector<std::unique_ptr<PreparedOp>> own(std::make_move_iterator(first),
                                                 std::make_move_iterator(end));
    segments.push_back(std::make_unique<GraphSegment>(
        plan, range, std::move(own), capture, *pools[plan.kindOf(function)]));
    for (size_t i = 0; first + i < end; ++i)
      first[i] = std::make_unique<InSegment>(*segments.back(), i);
  }
}

} // namespace fcdp
