// SPDX-License-Identifier: Apache-2.0
#include "step/Step.h"

#include "memory/Pool.h"
#include "operators/CpuPool.h"
#include "operators/GradientCheck.h"
#include "operators/GraphSegment.h"
#include "operators/OuterStates.h"
#include "operators/PreparedOp.h"
#include "operators/RecordedOp.h"
#include "operators/WarmUp.h"
#include "step/HostCopies.h"
#include "step/StepArena.h"
#include "step/StepObject.h"

#include <ATen/Context.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <algorithm>
#include <array>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/StreamGuard.h>
#include <cstring>
#include <optional>
#include <stdexcept>

namespace fcdp {

namespace {

at::Device deviceOf(const std::optional<CudaDevice> &cuda) {
  return cuda ? at::Device(at::kCUDA, at::DeviceIndex(cuda->index))
              : at::Device(at::kCPU);
}

/// libtorch's name for a CUDA stream that it has not made: its number is the
/// handle.
std::optional<c10::Stream> streamOf(const std::optional<CudaDevice> &cuda) {
  if (!cuda)
    return std::nullopt;
  return c10::Stream(c10::Stream::UNSAFE, deviceOf(cuda),
                     reinterpret_cast<c10::StreamId>(cuda->computeStream));
}

} // namespace

struct Step::Impl {
  Impl(const StepObject &object, Backend &backend, const StepSetup &options)
      : object(object), isNonfiniteAnywhere(options.isNonfiniteAnywhere),
        recorder(options.recorder), computeStream(streamOf(options.cuda)),
        state{.plan = object.plan(),
              .backend = backend,
              .place = options.place,
              .gathers = std::vector<uint64_t>(object.plan().buckets.size()),
              .device = deviceOf(options.cuda)},
        hostCopies(state),
        gpuMemory(options.cuda ? options.cuda->memory : nullptr),
        usedBytes(options.cuda ? options.cuda->usedBytes : nullptr),
        firstPool(arena(), systemMemory()), nextPool(arena(), systemMemory()),
        outerPool(arena(), systemMemory()) {
    const StepPlan &plan = state.plan;
    size_t kinds = plan.numVariants();
    if (plan.overlapsOuter())
      kinds += plan.outer->fragments;
    for (size_t i = 0; i < kinds; ++i)
      pools.push_back(std::make_unique<ResultPool>(arena(), systemMemory()));
  }

  bool isOnCpu() const { return state.device.is_cpu(); }
  /// "first_microbatch", or "first_microbatch.1" for a variant of several.
  std::string nameOf(plan::Role role, uint32_t fragment) const {
    std::string name = plan::EnumNameRole(role);
    if (isOuter(role))
      return state.plan.outer->fragments > 1
                 ? name + "." + std::to_string(fragment)
                 : name;
    if (state.plan.numVariants() > 1 && isMicrobatch(role))
      return name + "." + std::to_string(variant);
    return name;
  }
  c10::Allocator &systemMemory() const {
    return isOnCpu() ? routeCpuAllocations()
                     : static_cast<c10::Allocator &>(*gpuMemory);
  }
  /// The memory of the results of steps of the variant that runs, or of those
  /// with that outer update in them.
  ResultPool &pool() const { return outerPoolOf(overlapped); }
  ResultPool &outerPoolOf(std::optional<uint32_t> fragment) const {
    return *pools[fragment ? state.plan.numVariants() + *fragment : variant];
  }
  /// The memory of the results of a function.
  ResultPool &poolOf(plan::Role role) {
    switch (role) {
    case plan::Role::first_evaluation:
      return firstPool;
    case plan::Role::next_evaluation:
      return nextPool;
    case plan::Role::outer_update:
      return outerPool;
    default:
      return pool();
    }
  }
  /// The set of inputs of an evaluation, behind those of steps.
  size_t evaluationSet() const {
    return kMostUnread * object.plan().microBatches;
  }
  /// Returns an event of the backend that no plan uses.
  uint32_t eventOfStep(size_t place) const {
    return object.plan().numEvents + uint32_t(place);
  }

  PoolArena arena() { return stepArena(state, gpuMemory); }
  void throwIfBackendFailed() const;
  /// Runs an operation; throws with its name.
  void execute(size_t index, ResultPool &memory);
  /// Forgets results of operators, which nothing reads any more.
  void dropResults();
  /// Has the steps from the next one on be of that variant. Other streams than
  /// compute begin a step while compute ends the one before, which is proved
  /// for steps of one variant alone.
  void changeTo(uint32_t next);
  /// Runs the operations of a function; of `fragment`, if it synchronizes
  /// nodes, else of the variant that runs, if it is a micro-batch.
  void call(plan::Role role, uint32_t fragment = 0);
  /// Has the outer parameters be those of the job, once.
  void startOuter();
  /// Returns whether steps of several kinds run the function, which has its
  /// results now in this pool, now in that.
  bool isShared(const plan::FunctionT &function) const;
  /// Groups operations that may be in graphs into segments.
  void makeSegments(GraphCapture &capture);
  /// Until the oldest step that is not read has ended, on a GPU.
  void waitForOldest();
  /// Waits for the micro-batches' losses, and returns whether one of them is
  /// infinite or NaN on any rank.
  bool isLossNonfinite();
  /// Looks at the gradients of the step that has just run.
  void checkGradients();
  /// Reads what was found, for the unread step at `place`.
  void readGradients(size_t place);

  const StepObject &object;
  const std::function<bool(bool)> isNonfiniteAnywhere;
  StepRecorder *const recorder;
  const std::optional<c10::Stream> computeStream;
  StepState state;
  HostCopies hostCopies;
  /// Null on the CPU.
  c10::DeviceAllocator *const gpuMemory;
  const std::function<uint64_t()> usedBytes;
  /// Bytes of the device in use when the last step had been issued.
  uint64_t usedInStep = 0;
  /// Memory of the results of steps, by variant, and behind it that of steps
  /// with an outer update in them, by fragment. Each records its own
  /// allocations.
  std::vector<std::unique_ptr<ResultPool>> pools;
  /// The variant of the step that runs, or of the last one.
  uint32_t variant = 0;
  /// The fragment whose outer update is in the last micro-batch of that step.
  std::optional<uint32_t> overlapped;
  /// Recorded at the end of the last step, on a GPU.
  std::optional<uint32_t> lastEnd;
  /// Those of the first batch of an evaluation, and of the others. Each records
  /// its own allocations.
  ResultPool firstPool, nextPool;
  /// That of outer updates, whose operations take none of it.
  ResultPool outerPool;
  /// Whether the outer parameters have been set.
  bool hasOuter = false;
  /// Null if steps continue with any gradients and do not clip them.
  std::unique_ptr<GradientCheck> gradientCheck;
  /// Whether each unread step was skipped.
  std::array<bool, kMostUnread> wasSkipped = {};
  /// Of the step whose losses were read last.
  std::optional<int64_t> nonfiniteGradient;
  std::optional<double> gradientNorm;
  /// Index of the set of inputs that the caller fills.
  size_t filling = 0;
  /// The random state at the beginning of an evaluation.
  uint64_t evaluationSeed = 0;
  std::vector<std::unique_ptr<PreparedOp>> ops;
  std::vector<std::unique_ptr<GraphSegment>> segments;
  /// The first error.
  std::optional<Failure> error;
};

namespace {

/// While it lives, libtorch's current stream is the compute stream.
struct StreamScope {
  explicit StreamScope(const std::optional<c10::Stream> &stream) {
    if (stream)
      guard.emplace(*stream);
  }
  std::optional<c10::StreamGuard> guard;
};

/// While it lives, this thread computes without autograd, in the pool and on
/// the compute stream.
struct ComputeScope {
  ComputeScope(ResultPool &pool, const std::optional<c10::Stream> &stream)
      : streamScope(stream), poolScope(pool) {}
  StreamScope streamScope;
  at::AutoDispatchBelowADInplaceOrView belowAutograd;
  at::NoGradGuard noGrad;
  ResultPool::Scope poolScope;
};

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

/// Inputs of a variant are in the memory of those of the greatest one.
void makeInputs(StepState &state) {
  const StepPlan &plan = state.plan;
  auto make = [&](const plan::InputT &input) {
    return at::zeros(input.shape,
                     at::TensorOptions(toScalarType(toDType(input.dtype)))
                         .device(state.device));
  };
  std::vector<at::Tensor> greatest;
  for (const auto &input : plan.greatestInputs())
    greatest.push_back(make(*input));
  for (uint32_t variant = 0; variant < plan.numVariants(); ++variant)
    for (size_t i = 0; i < greatest.size(); ++i) {
      const Shape &shape = plan.stepInputs(variant)[i]->shape;
      state.inputs.push_back(
          greatest[i].view(-1).narrow(0, 0, numElements(shape)).view(shape));
    }
  for (const auto &input : plan.evaluationInputs())
    state.inputs.push_back(make(*input));
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
    for (const plan::State &kept : bucket->states)
      if ((kept.role() == plan::StateRole::master ||
           isOptimizerState(kept.role())) &&
          kept.buf().bytes() != 0)
        state.flat(kept.buf(), int64_t(kept.buf().bytes()), DType::U8).zero_();
  }
}

/// One of those that a segment runs.
class InSegment final : public PreparedOp {
public:
  InSegment(GraphSegment &segment, size_t position)
      : segment(segment), position(position) {}
  void run(StepState &state) override { segment.run(position, state); }

private:
  GraphSegment &segment;
  const size_t position;
};

/// Most arguments that one operator has; the stack never grows in a step.
constexpr size_t kStackReserve = 64;

} // namespace

Step::Step(const StepObject &object, Backend &backend, const StepSetup &options)
    : impl(std::make_unique<Impl>(object, backend, options)) {
  const StepPlan &plan = object.plan();
  if (options.cuda)
    at::globalContext().lazyInitDevice(at::kCUDA);
  impl->evaluationSeed = options.seed + worldRank(plan.mesh, options.place);
  at::manual_seed(impl->evaluationSeed);
  StepState &state = impl->state;
  at::NoGradGuard noGrad;
  StreamScope streamScope(impl->computeStream);
  if (options.cuda)
    warmUpProducts(state.device);
  makeInputs(state);
  makeBuffers(state, object.constants());
  makeOptimizerState(state);
  for (at::Tensor *factor : {&state.lossScale, &state.lossWeight})
    *factor = at::ones({}, at::TensorOptions(at::kFloat).device(state.device));
  for (const auto &slot : plan.slots)
    state.slots.push_back(bindSlot(*slot, state));
  state.stack.reserve(kStackReserve);
  state.losses.reserve(kMostUnread, plan.microBatches, state.device);
  state.evaluated.reserve(1, 1, state.device);
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
  if (options.onNonfinite != OnNonfinite::Continue ||
      plan.uses(plan::OpBody::clip_gradients))
    impl->gradientCheck = std::make_unique<GradientCheck>(state, kMostUnread);
  if (options.graphs && !impl->recorder)
    impl->makeSegments(*options.graphs);
}

Step::~Step() = default;

/// Returns the function that has operation `op`.
static const plan::FunctionT &findFunction(const StepPlan &plan, size_t op) {
  auto found = std::find_if(plan.functions.begin(), plan.functions.end(),
                            [&](const auto &f) { return op < f->end; });
  return **found;
}

bool Step::Impl::isShared(const plan::FunctionT &function) const {
  if (object.plan().overlapsOuter() && !isOuter(function.role))
    return function.role != plan::Role::only_microbatch &&
           function.role != plan::Role::last_microbatch;
  return object.plan().numVariants() > 1 && !isMicrobatch(function.role);
}

void Step::Impl::makeSegments(GraphCapture &capture) {
  const StepPlan &plan = object.plan();
  for (OpRange range : findSegments(plan)) {
    const plan::FunctionT &function = findFunction(plan, range.first);
    if (isShared(function))
      continue;
    auto first = ops.begin() + range.first, end = ops.begin() + range.end;
    std::vector<std::unique_ptr<PreparedOp>> own(std::make_move_iterator(first),
                                                 std::make_move_iterator(end));
    segments.push_back(std::make_unique<GraphSegment>(
        plan, range, std::move(own), capture,
        isOuter(function.role) ? outerPoolOf(function.variant)
                               : *pools[function.variant]));
    for (size_t i = 0; first + i < end; ++i)
      first[i] = std::make_unique<InSegment>(*segments.back(), i);
  }
}

std::span<std::byte> Step::input(size_t index) {
  if (!impl->isOnCpu())
    return impl->hostCopies.input(impl->filling, index);
  return bytesOf(impl->state.inputs[index]);
}

std::span<std::byte> Step::buffer(size_t index) {
  const at::Tensor &buffer = impl->state.buffers[index];
  StreamScope streamScope(impl->computeStream);
  return impl->isOnCpu() ? bytesOf(buffer) : impl->hostCopies.of(buffer);
}

std::span<std::byte> Step::shard(size_t bucket) {
  return region(
      findState(*impl->state.plan.buckets[bucket], plan::StateRole::shard)
          ->buf());
}

std::span<std::byte> Step::master(size_t bucket) {
  return region(
      findState(*impl->state.plan.buckets[bucket], plan::StateRole::master)
          ->buf());
}

void Step::keepOuter() { impl->hasOuter = true; }

std::span<std::byte> Step::region(const plan::Buf &buf) {
  StepState &state = impl->state;
  if (impl->isOnCpu() || buf.arena() == plan::Arena::host)
    return {state.address(buf), buf.bytes()};
  StreamScope streamScope(impl->computeStream);
  return impl->hostCopies.of(state.flat(buf, int64_t(buf.bytes()), DType::U8));
}

void Step::copyRegion(const plan::Buf &buf, uint64_t offset,
                      std::span<std::byte> out) {
  StepState &state = impl->state;
  const std::byte *from = state.address(buf) + offset;
  if (impl->isOnCpu() || buf.arena() == plan::Arena::host) {
    std::copy(from, from + out.size(), out.begin());
    return;
  }
  StreamScope streamScope(impl->computeStream);
  auto bytes = int64_t(out.size());
  tensorOver(out.data(), {bytes}, DType::U8, at::kCPU)
      .copy_(tensorOver(state.address(buf) + offset, {bytes}, DType::U8,
                        state.device));
}

std::vector<std::byte> Step::randomState() const {
  at::Generator generator =
      at::globalContext().defaultGenerator(impl->state.device);
  std::lock_guard<std::mutex> lock(generator.mutex());
  at::Tensor random = generator.get_state();
  std::span<std::byte> bytes = bytesOf(random);
  return {bytes.begin(), bytes.end()};
}

void Step::setRandomState(std::span<const std::byte> random) {
  at::Tensor value = at::empty({int64_t(random.size())}, at::kByte);
  std::copy(random.begin(), random.end(), bytesOf(value).begin());
  at::Generator generator =
      at::globalContext().defaultGenerator(impl->state.device);
  std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_state(value);
}

void Step::seedRandom(uint64_t seed) { at::manual_seed(seed); }

int64_t Step::updateCount(size_t bucket) const {
  return impl->state.updates[bucket].number;
}

void Step::setUpdateCount(size_t bucket, int64_t count) {
  UpdateState &update = impl->state.updates[bucket];
  StreamScope streamScope(impl->computeStream);
  update.count.fill_(float(count));
  update.number = count;
}

void Step::setLearningRate(double rate) { impl->state.learningRate = rate; }

void Step::setLossScale(float scale, bool skipsOverflow) {
  StepState &state = impl->state;
  StreamScope streamScope(impl->computeStream);
  state.lossScale.fill_(scale);
  state.lossScaleNumber = scale;
  state.skipsOverflow = skipsOverflow;
}

void Step::setLossWeight(float factor) {
  StepState &state = impl->state;
  StreamScope streamScope(impl->computeStream);
  state.lossWeight.fill_(factor);
  state.lossWeightNumber = factor;
}

void Step::throwIfFailed() const {
  if (impl->error)
    throw *impl->error;
  impl->throwIfBackendFailed();
}

void Step::Impl::throwIfBackendFailed() const {
  const Backend &backend = state.backend;
  if (backend.failed())
    throw Failure(backend.failure(), backend.failureKind());
}

void Step::Impl::execute(size_t index, ResultPool &memory) {
  try {
    memory.reach(index);
    ops[index]->run(state);
  } catch (const std::exception &error) {
    throw wrapError(state.plan.descriptions[index] + ": ", error);
  }
  if (state.plan.ops[index]->body.type == plan::OpBody::wait)
    throwIfBackendFailed();
}

void Step::Impl::call(plan::Role role, uint32_t fragment) {
  size_t index = state.plan.indexOf(role, isOuter(role)        ? fragment
                                          : isMicrobatch(role) ? variant
                                                               : 0);
  const plan::FunctionT &function = *state.plan.functions[index];
  ResultPool &memory = poolOf(role);
  memory.beginFunction(state.plan.reservations[index], function.results);
  for (size_t op = function.first; op < function.end; ++op)
    execute(op, memory);
  memory.endFunction();
}

void Step::Impl::changeTo(uint32_t next) {
  if (next != variant && lastEnd)
    for (size_t stream = 0; stream < kNumStreams; ++stream)
      if (StreamId(stream) != StreamId::Compute)
        state.backend.wait(*lastEnd, StreamId(stream));
  variant = next;
}

void Step::Impl::dropResults() {
  for (size_t slot = 0; slot < state.plan.slots.size(); ++slot)
    if (state.plan.slots[slot]->kind == plan::SlotKind::transient)
      state.slots[slot].reset();
}

void Step::call(plan::Role role, uint32_t fragment) {
  throwIfFailed();
  if (impl->recorder)
    impl->recorder->beginFunction(impl->nameOf(role, fragment));
  try {
    impl->call(role, fragment);
  } catch (const std::exception &error) {
    impl->error = wrapError("", error);
  }
  throwIfFailed();
}

void Step::Impl::startOuter() {
  if (!state.plan.outer || hasOuter)
    return;
  for (uint32_t bucket = 0; bucket < state.plan.buckets.size(); ++bucket)
    if (OuterStates states(bucket, state); states.outer.defined())
      states.outer.copy_(states.own());
  hasOuter = true;
}

void Step::init() {
  ComputeScope scope(impl->pool(), impl->computeStream);
  impl->hostCopies.uploadAll();
  impl->startOuter();
  call(plan::Role::init);
  impl->state.backend.synchronize();
  throwIfFailed();
  impl->hostCopies.clear();
}

namespace {

/// Returns the role of the function that runs micro-batch k of a step; the last
/// one has an outer update in it, or not.
plan::Role roleOf(int64_t k, int64_t microBatches, bool overlapsOuter) {
  if (microBatches == 1)
    return overlapsOuter ? plan::Role::only_outer_microbatch
                         : plan::Role::only_microbatch;
  if (k == 0)
    return plan::Role::first_microbatch;
  if (k + 1 < microBatches)
    return plan::Role::next_microbatch;
  return overlapsOuter ? plan::Role::last_outer_microbatch
                       : plan::Role::last_microbatch;
}

} // namespace

void Step::updateOuter(uint32_t fragment) {
  StepState &state = impl->state;
  ResultPool &memory = impl->outerPool;
  // Nothing else is in flight meanwhile, as is proved.
  state.backend.synchronize();
  memory.beginStep();
  {
    ComputeScope scope(memory, impl->computeStream);
    call(plan::Role::outer_update, fragment);
  }
  state.backend.synchronize();
  throwIfFailed();
  memory.endStep();
}

void Step::run(const std::function<void(int64_t)> &fillInputs, uint32_t variant,
               std::span<const uint32_t> fragments) {
  StepState &state = impl->state;
  const StepPlan &plan = state.plan;
  impl->changeTo(variant);
  impl->overlapped.reset();
  if (plan.overlapsOuter() && !fragments.empty())
    impl->overlapped = fragments.front();
  state.losses.beginStep();
  if (impl->recorder)
    impl->recorder->beginStep();
  impl->pool().beginStep();
  for (int64_t k = 0; k < plan.microBatches; ++k) {
    // There are as many sets as there may be unread steps: when the losses of a
    // step are read, its inputs are free, too.
    impl->filling = state.losses.newest() * plan.microBatches + k;
    fillInputs(k);
    ComputeScope scope(impl->pool(), impl->computeStream);
    impl->hostCopies.uploadInputs(impl->filling);
    call(roleOf(k, plan.microBatches, impl->overlapped.has_value()),
         impl->overlapped.value_or(0));
  }
  state.skipsUpdates =
      state.onNonfinite == OnNonfinite::Skip && impl->isLossNonfinite();
  {
    ComputeScope scope(impl->pool(), impl->computeStream);
    call(plan::Role::update);
  }
  impl->checkGradients();
  if (!plan.overlapsOuter())
    for (uint32_t fragment : fragments)
      updateOuter(fragment);
  if (!impl->isOnCpu())
    state.backend.record(
        impl->lastEnd.emplace(impl->eventOfStep(state.losses.newest())),
        StreamId::Compute);
  if (impl->isOnCpu() || impl->recorder)
    state.backend.synchronize();
  throwIfFailed();
  if (impl->recorder)
    impl->recorder->endStep();
  impl->dropResults();
  // libtorch keeps what it reserves until the pool empties its cache.
  if (impl->usedBytes)
    impl->usedInStep = impl->usedBytes();
  impl->pool().endStep();
  try {
    state.losses.endStep();
  } catch (const std::exception &error) {
    throw std::runtime_error(impl->object.path() + ": " + error.what());
  }
}

double Step::evaluateBatch(plan::Role role) {
  StepState &state = impl->state;
  ResultPool &memory = impl->poolOf(role);
  state.evaluated.beginStep();
  memory.beginStep();
  {
    ComputeScope scope(memory, impl->computeStream);
    impl->hostCopies.uploadInputs(impl->filling);
    call(role);
  }
  state.backend.synchronize();
  throwIfFailed();
  impl->dropResults();
  memory.endStep();
  state.evaluated.endStep();
  return state.evaluated.take()[0];
}

std::vector<double>
Step::evaluate(int64_t batches,
               const std::function<void(int64_t)> &fillInputs) {
  StepState &state = impl->state;
  std::vector<std::byte> random = randomState();
  {
    at::Generator generator =
        at::globalContext().defaultGenerator(state.device);
    std::lock_guard<std::mutex> lock(generator.mutex());
    generator.set_current_seed(impl->evaluationSeed);
  }
  state.backend.synchronize();
  if (impl->recorder)
    impl->recorder->pause(true);
  state.isEvaluating = true;
  impl->filling = impl->evaluationSet();
  std::vector<double> losses;
  for (int64_t batch = 0; batch < batches; ++batch) {
    fillInputs(batch);
    losses.push_back(evaluateBatch(batch == 0 ? plan::Role::first_evaluation
                                              : plan::Role::next_evaluation));
  }
  state.isEvaluating = false;
  if (impl->recorder)
    impl->recorder->pause(false);
  setRandomState(random);
  return losses;
}

void Step::Impl::waitForOldest() {
  if (state.losses.numUnread() == 1)
    state.backend.synchronize();
  else
    state.backend.waitOnHost(eventOfStep(state.losses.oldest()));
}

bool Step::Impl::isLossNonfinite() {
  if (!isOnCpu()) {
    // The end of the step uses this event again.
    uint32_t event = eventOfStep(state.losses.newest());
    state.backend.record(event, StreamId::Compute);
    state.backend.waitOnHost(event);
  }
  bool own = !state.losses.isFinite();
  return isNonfiniteAnywhere ? isNonfiniteAnywhere(own) : own;
}

void Step::Impl::checkGradients() {
  if (!gradientCheck)
    return;
  at::NoGradGuard noGrad;
  StreamScope streamScope(computeStream);
  wasSkipped[state.losses.newest()] = state.skipsUpdates;
  gradientCheck->issue(state, state.losses.newest());
}

void Step::Impl::readGradients(size_t place) {
  gradientNorm = gradientCheck->norm(place);
  bool isJudged =
      state.onNonfinite != OnNonfinite::Continue && !wasSkipped[place];
  nonfiniteGradient = isJudged ? gradientCheck->find(place) : std::nullopt;
}

bool Step::isSkipped() const { return impl->state.skipsUpdates; }

std::optional<int64_t> Step::nonfiniteGradient() const {
  return impl->nonfiniteGradient;
}

std::optional<double> Step::gradientNorm() const { return impl->gradientNorm; }

std::vector<double> Step::losses() {
  StepState &state = impl->state;
  if (state.losses.numUnread() == 0)
    throw std::runtime_error("the losses of all steps have been read");
  if (!impl->isOnCpu())
    impl->waitForOldest();
  throwIfFailed();
  if (impl->gradientCheck)
    impl->readGradients(state.losses.oldest());
  return state.losses.take();
}

Step::Memory Step::memory() const {
  const StepState &state = impl->state;
  if (impl->gpuMemory) {
    auto stats = impl->gpuMemory->getDeviceStats(state.device.index());
    return {impl->usedInStep, uint64_t(stats.num_device_alloc)};
  }
  uint64_t bytes = state.plan.deviceBytes, systemAllocations = 0;
  std::vector<const ResultPool *> pools = {&impl->firstPool, &impl->nextPool};
  for (const auto &pool : impl->pools) {
    pools.push_back(pool.get());
    systemAllocations += pool->systemAllocations();
  }
  for (const ResultPool *one : pools)
    bytes = std::max<uint64_t>(bytes, one->regionBytes());
  bytes += impl->pool().recordedBytes();
  // Those of smaller variants are inside those of the greatest.
  const size_t first =
      (state.plan.numVariants() - 1) * state.plan.numStepInputs();
  for (size_t i = first; i < state.inputs.size(); ++i)
    bytes += state.inputs[i].nbytes();
  for (const at::Tensor &buffer : state.buffers)
    bytes += buffer.nbytes();
  return {bytes, systemAllocations};
}

} // namespace fcdp
