// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Analysis/DeviceMemory.h"

#include "fcdp/Analysis/Activations.h"
#include "fcdp/Analysis/Aliases.h"
#include "fcdp/Analysis/Borders.h"
#include "llvm/Support/MathExtras.h"

#include <numeric>

using namespace mlir;
using namespace fcdp;

llvm::StringRef fcdp::getName(HeldFor what) {
  switch (what) {
  case HeldFor::Shards:
    return "shards";
  case HeldFor::Optimizer:
    return "optimizer";
  case HeldFor::Gathered:
    return "gathered";
  case HeldFor::Gradients:
    return "gradients";
  case HeldFor::Activations:
    return "activations";
  case HeldFor::Scratch:
    return "scratch";
  case HeldFor::Inputs:
    return "inputs";
  }
  llvm_unreachable("unknown use of memory");
}

int64_t HeldBytes::total() const {
  return std::accumulate(bytes.begin(), bytes.end(), int64_t(0));
}

HeldFor fcdp::getHeldFor(StateRole role) {
  switch (role) {
  case StateRole::shard:
    return HeldFor::Shards;
  case StateRole::exp_avg:
  case StateRole::exp_avg_sq:
  case StateRole::momentum_buffer:
    return HeldFor::Optimizer;
  case StateRole::cache:
  case StateRole::resident:
  case StateRole::prefetched:
    return HeldFor::Gathered;
  case StateRole::grad:
  case StateRole::node_grad:
  case StateRole::full_grad:
  case StateRole::host_grad:
    return HeldFor::Gradients;
  }
  llvm_unreachable("unknown role");
}

static HeldFor classify(Operation *op) {
  auto load = dyn_cast<CacheLoadOp>(op);
  bool isGradient =
      isa<AddOp, PackOp, ReduceScatterOp>(op) || (load && load.isOfGradient());
  return isGradient ? HeldFor::Gradients : HeldFor::Gathered;
}

namespace {
/// The places of one module's states and values, given or planned.
class Layout {
public:
  static FailureOr<Layout> compute(func::FuncOp function);

  BufferAttr lookup(StateOp state) const {
    return states.places.lookup(state.getSymNameAttr());
  }
  BufferAttr lookup(Operation *op) const { return plan.places.lookup(op); }
  BufferAttr lookupScratch(Operation *op) const {
    return plan.scratches.lookup(op);
  }

private:
  void read(ModuleOp module, func::FuncOp function);

  StatePlan states;
  BufferPlan plan;
};

/// Bytes of the device arena, [begin, end), on all ranks together.
struct Extent {
  Operation *owner;
  HeldFor what;
  int64_t begin, end;
};

/// Walks a function and keeps what is in use.
class Walker {
public:
  Walker(func::FuncOp function, const Layout &layout,
         std::vector<HeldBytes> *timeline);

  FailureOr<FunctionMemory> run();

private:
  void addArrived(ReadStateOp read);
  void addInFlight(func::FuncOp before, const Layout &other);
  void start(Operation *op);
  void stop(Operation *op);
  void add(Operation *owner, HeldFor what, BufferAttr buffer);
  void measureBuffers();
  void findFullest();

  func::FuncOp function;
  const Layout &layout;
  std::vector<HeldBytes> *timeline;
  MeshOp mesh;
  std::vector<Activation> activations;
  /// What is in use now, apart from states.
  SmallVector<Extent> live;
  /// What is there from the beginning, by what follows its last use.
  llvm::DenseMap<Operation *, SmallVector<Operation *>> over;
  HeldBytes states, buffers;
  int64_t inputs = 0, stateEnd = 0;
  /// Bytes of activations in use at each position.
  std::vector<int64_t> activationBytes;
  FunctionMemory memory;
};
} // namespace

//===----------------------------------------------------------------------===//
// Places
//===----------------------------------------------------------------------===//

void Layout::read(ModuleOp module, func::FuncOp function) {
  for (auto state : module.getOps<StateOp>())
    if (state.getBuffer())
      states.places[state.getSymNameAttr()] = *state.getBuffer();
  for (Operation &op : function.front()) {
    if (auto buffer = op.getAttrOfType<BufferAttr>("buffer"))
      plan.places[&op] = buffer;
    if (auto buffer = op.getAttrOfType<BufferAttr>("scratch"))
      plan.scratches[&op] = buffer;
  }
}

FailureOr<Layout> Layout::compute(func::FuncOp function) {
  auto module = function->getParentOfType<ModuleOp>();
  std::optional<Phase> phase = getPhase(module);
  Layout layout;
  if (phase == Phase::planned) {
    layout.read(module, function);
    return layout;
  }
  if (phase != Phase::scheduled)
    return module.emitError("expected a module in phase 'scheduled' or "
                            "'planned'");
  layout.states = planStates(module);
  FailureOr<BufferPlan> plan = planBuffers(function, layout.states);
  if (failed(plan))
    return failure();
  layout.plan = std::move(*plan);
  return layout;
}

//===----------------------------------------------------------------------===//
// What is in use
//===----------------------------------------------------------------------===//

/// Inputs and buffers of the model.
static int64_t measureInputs(ModuleOp module) {
  int64_t bytes = 0;
  for (auto input : module.getOps<InputOp>())
    bytes += byteSize(cast<RankedTensorType>(input.getType()));
  for (auto buffer : module.getOps<BufferOp>())
    bytes += byteSize(cast<RankedTensorType>(buffer.getType()));
  return bytes;
}

Walker::Walker(func::FuncOp function, const Layout &layout,
               std::vector<HeldBytes> *timeline)
    : function(function), layout(layout), timeline(timeline),
      mesh(getMesh(function->getParentOfType<ModuleOp>())),
      activations(findActivations(function)) {
  auto module = function->getParentOfType<ModuleOp>();
  for (auto state : module.getOps<StateOp>()) {
    BufferAttr buffer = layout.lookup(state);
    if (!buffer || buffer.getArena() != Arena::device)
      continue;
    if (state.getRole() == StateRole::prefetched) {
      memory.arena.bytes =
          std::max(memory.arena.bytes, buffer.getOffset() + buffer.getBytes());
      continue; // shares its memory with values
    }
    states[getHeldFor(state.getRole())] += buffer.getBytes();
    stateEnd = std::max(stateEnd, buffer.getOffset() + buffer.getBytes());
  }
  inputs = measureInputs(module);
}

void Walker::add(Operation *owner, HeldFor what, BufferAttr buffer) {
  // What is inside a state has been counted.
  if (!buffer || buffer.getOffset() < stateEnd || buffer.getBytes() == 0)
    return;
  int64_t end = buffer.getOffset() + buffer.getBytes() +
                (mesh.getNode() - 1) * buffer.getNodeStride() +
                (mesh.getLocal() - 1) * buffer.getLocalStride();
  live.push_back({owner, what, buffer.getOffset(), end});
  memory.arena.bytes = std::max(memory.arena.bytes, end);
}

/// A copy that the function before has gathered is there from the beginning.
void Walker::addArrived(ReadStateOp read) {
  auto state =
      SymbolTable::lookupNearestSymbolFrom<StateOp>(read, read.getSourceAttr());
  SmallVector<Operation *> users = collectMemoryUsers(read);
  if (!state || state.getRole() != StateRole::prefetched || users.empty())
    return;
  add(read, HeldFor::Gathered, layout.lookup(state));
  Operation *last = *std::max_element(
      users.begin(), users.end(),
      [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  over[last->getNextNode()].push_back(read);
}

/// What `before` may have in use when this function begins.
void Walker::addInFlight(func::FuncOp before, const Layout &other) {
  for (Operation &op : before.front()) {
    if (!isBuffered(&op))
      continue;
    if (findLateRelease(&op))
      add(&op, classify(&op), other.lookup(&op));
    Operation *owner = &op;
    if (auto reduce = dyn_cast<ReduceScatterOp>(op)) {
      owner = getScratchOwner(reduce);
      if (findLateRelease(owner))
        add(&op, HeldFor::Scratch, other.lookupScratch(&op));
    }
    if (ReleaseOp release = findLateRelease(owner))
      over[findArrival(release, function)->getNextNode()].push_back(&op);
  }
}

void Walker::start(Operation *op) {
  if (!isBuffered(op))
    return;
  add(op, classify(op), layout.lookup(op));
  if (auto reduce = dyn_cast<ReduceScatterOp>(op)) {
    add(getScratchOwner(reduce), HeldFor::Scratch, layout.lookupScratch(op));
  }
  measureBuffers();
}

void Walker::stop(Operation *op) {
  for (Operation *owner : over.lookup(op))
    llvm::erase_if(live,
                   [&](const Extent &extent) { return extent.owner == owner; });
  auto release = dyn_cast<ReleaseOp>(op);
  if (!release || release.getStream())
    return;
  Operation *released = release.getValue().getDefiningOp();
  llvm::erase_if(
      live, [&](const Extent &extent) { return extent.owner == released; });
  measureBuffers();
}

/// Counts each byte once: a gather's input may stand inside its result.
void Walker::measureBuffers() {
  SmallVector<Extent> extents = live;
  llvm::sort(extents, [](const Extent &a, const Extent &b) {
    return std::tie(a.begin, b.end) < std::tie(b.begin, a.end);
  });
  buffers = {};
  int64_t counted = stateEnd, aligned = 0;
  for (const Extent &extent : extents) {
    int64_t bytes = extent.end - std::max(extent.begin, counted);
    if (bytes <= 0)
      continue;
    buffers[extent.what] += bytes;
    aligned += llvm::alignTo(bytes, kBufferAlignment);
    counted = extent.end;
  }
  int64_t bound = llvm::alignTo(stateEnd, kBufferAlignment) + aligned;
  memory.arena.bound = std::max(memory.arena.bound, bound);
}

void Walker::findFullest() {
  int64_t most = -1, activationsNow = 0;
  for (auto [position, op] : llvm::enumerate(function.front())) {
    stop(&op);
    start(&op);
    activationsNow += activationBytes[position];
    HeldBytes now = states;
    for (size_t i = 0; i < kHeldForCount; ++i)
      now.bytes[i] += buffers.bytes[i];
    now[HeldFor::Activations] += activationsNow;
    now[HeldFor::Inputs] += inputs;
    if (timeline)
      timeline->push_back(now);
    if (now.total() <= most)
      continue;
    most = now.total();
    memory.fullest = &op;
    memory.held = now;
  }
}

FailureOr<FunctionMemory> Walker::run() {
  memory.arena.bytes = std::max(memory.arena.bytes, stateEnd);
  memory.arena.bound = stateEnd;
  PackingProblem pool = makePoolProblem(activations);
  memory.pool = {packArena(pool).peak, lowerBound(pool)};
  size_t count = llvm::range_size(function.front());
  activationBytes.assign(count + 1, 0);
  for (const Activation &activation : activations) {
    activationBytes[activation.begin] += activation.bytes;
    activationBytes[activation.end] -= activation.bytes;
  }
  for (auto read : function.getOps<ReadStateOp>())
    addArrived(read);
  for (func::FuncOp before : findPredecessors(function)) {
    FailureOr<Layout> other = Layout::compute(before);
    if (failed(other))
      return failure();
    addInFlight(before, *other);
  }
  findFullest();
  memory.arena.bound = std::min(memory.arena.bound, memory.arena.bytes);
  return memory;
}

//===----------------------------------------------------------------------===//
// Answers
//===----------------------------------------------------------------------===//

FailureOr<FunctionMemory>
fcdp::measureFunctionMemory(func::FuncOp function,
                            std::vector<HeldBytes> *timeline) {
  FailureOr<Layout> layout = Layout::compute(function);
  if (failed(layout))
    return failure();
  return Walker(function, *layout, timeline).run();
}

static void extend(RegionBytes &region, const RegionBytes &other) {
  region.bytes = std::max(region.bytes, other.bytes);
  region.bound = std::max(region.bound, other.bound);
}

/// Of two micro-batches one is the first and one the last.
static bool isRun(func::FuncOp function) {
  auto role = function->getAttrOfType<RoleAttr>(kRoleAttr);
  return !role || role.getValue() != Role::next_microbatch ||
         getMicroBatches(function->getParentOfType<ModuleOp>()) > 2;
}

FailureOr<DeviceMemory> fcdp::measureDeviceMemory(ModuleOp module) {
  DeviceMemory memory;
  memory.inputs = measureInputs(module);
  for (auto function : module.getOps<func::FuncOp>()) {
    FailureOr<FunctionMemory> part = measureFunctionMemory(function);
    if (failed(part))
      return failure();
    extend(memory.arena, part->arena);
    extend(memory.pool, part->pool);
    bool isFuller = !memory.fullest || part->held.total() > memory.held.total();
    if (!isFuller || !isRun(function))
      continue;
    memory.fullest = part->fullest;
    memory.held = part->held;
  }
  return memory;
}

FailureOr<int64_t> fcdp::peakDeviceBytes(ModuleOp module) {
  FailureOr<DeviceMemory> memory = measureDeviceMemory(module);
  if (failed(memory))
    return failure();
  return memory->total();
}
