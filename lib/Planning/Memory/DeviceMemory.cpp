// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Planning/Memory/DeviceMemory.h"

#include "fcdp/Analysis/Aliases.h"
#include "fcdp/Analysis/Borders.h"
#include "fcdp/Analysis/InPlaceGradients.h"
#include "fcdp/Planning/Memory/Activations.h"
#include "fcdp/Planning/Memory/HeldMemory.h"
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
/// Bytes of the device arena, [begin, end), on all ranks together.
struct Extent {
  Operation *owner;
  HeldFor what;
  int64_t begin, end;
};

/// Walks a function and keeps what is in use.
class Walker {
public:
  Walker(func::FuncOp function, const MemoryLayouts &layouts,
         std::vector<HeldBytes> *timeline);

  FunctionMemory run();

private:
  void addArrived(ReadStateOp read);
  void addInFlight(func::FuncOp before);
  void measureActivations();
  void start(Operation *op);
  void stop(Operation *op);
  void add(Operation *owner, HeldFor what, BufferAttr buffer);
  void measureBuffers();
  void findFullest();
  void placeResults();

  func::FuncOp function;
  const MemoryLayouts &layouts;
  const MemoryLayout &layout;
  std::vector<HeldBytes> *timeline;
  MeshOp mesh;
  std::vector<Activation> activations;
  llvm::DenseMap<Operation *, PackOp> inPlace;
  /// Packs whose memory is in use, or was.
  llvm::DenseSet<Operation *> started;
  /// What is in use now, apart from states.
  SmallVector<Extent> live;
  /// What is there from the beginning, by what follows its last use.
  llvm::DenseMap<Operation *, SmallVector<Operation *>> over;
  HeldBytes states, buffers;
  int64_t inputs = 0, stateEnd = 0;
  /// What states and values take of the arena now.
  int64_t buffersNow = 0;
  /// By how much activations grow at each position: their bytes, and what they
  /// take of the pool.
  std::vector<int64_t> activationBytes, poolBytes;
  FunctionMemory memory;
};
} // namespace

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

Walker::Walker(func::FuncOp function, const MemoryLayouts &layouts,
               std::vector<HeldBytes> *timeline)
    : function(function), layouts(layouts),
      layout(layouts.find(function)->second), timeline(timeline),
      mesh(getMesh(function->getParentOfType<ModuleOp>())),
      activations(findActivations(function)),
      inPlace(collectInPlaceProducers(function)) {
  auto module = function->getParentOfType<ModuleOp>();
  for (auto state : module.getOps<StateOp>()) {
    BufferAttr buffer = layout.lookup(state);
    if (!buffer || buffer.getArena() != Arena::device)
      continue;
    if (state.getRole() == StateRole::prefetched) {
      memory.buffers =
          std::max(memory.buffers, buffer.getOffset() + buffer.getBytes());
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
  auto [begin, end] = getExtent(buffer, mesh);
  live.push_back({owner, what, begin, end});
  memory.buffers = std::max(memory.buffers, end);
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
void Walker::addInFlight(func::FuncOp before) {
  const MemoryLayout &other = layouts.find(before)->second;
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
  if (PackOp pack = inPlace.lookup(op))
    op = pack; // whose memory is written here first
  if (!isBuffered(op) || (isa<PackOp>(op) && !started.insert(op).second))
    return;
  add(op, classify(op), layout.lookup(op));
  if (auto reduce = dyn_cast<ReduceScatterOp>(op)) {
    add(getScratchOwner(reduce), HeldFor::Scratch, layout.lookupScratch(op));
  }
  measureBuffers();
}

void Walker::stop(Operation *op) {
  SmallVector<Operation *> owners = over.lookup(op);
  if (auto release = dyn_cast<ReleaseOp>(op); release && !release.getStream())
    owners.push_back(release.getValue().getDefiningOp());
  if (owners.empty())
    return;
  llvm::erase_if(live, [&](const Extent &extent) {
    return llvm::is_contained(owners, extent.owner);
  });
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
  buffersNow = llvm::alignTo(stateEnd, kBufferAlignment) + aligned;
}

/// Each with the pool's tag in front.
void Walker::measureActivations() {
  size_t count = llvm::range_size(function.front());
  activationBytes.assign(count + 1, 0);
  poolBytes.assign(count + 1, 0);
  for (const Activation &activation : activations) {
    int64_t bytes = getPoolBytes(activation.bytes);
    activationBytes[activation.begin] += activation.bytes;
    activationBytes[activation.end] -= activation.bytes;
    poolBytes[activation.begin] += bytes;
    poolBytes[activation.end] -= bytes;
  }
}

void Walker::findFullest() {
  int64_t most = -1, activationsNow = 0, poolNow = 0;
  for (auto [position, op] : llvm::enumerate(function.front())) {
    stop(&op);
    start(&op);
    activationsNow += activationBytes[position];
    poolNow += poolBytes[position];
    memory.pool = std::max(memory.pool, poolNow);
    memory.arena.bound = std::max(memory.arena.bound, buffersNow + poolNow);
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

/// Whether `activations[index]` could be taken for another result of its
/// operator, one that is in use for another time: operators allocate theirs in
/// any order.
static bool isAmbiguous(ArrayRef<Activation> activations, size_t index) {
  const Activation &one = activations[index];
  auto isOther = [&](const Activation &other) {
    return other.bytes == one.bytes && other.end != one.end;
  };
  for (size_t i = index; i-- > 0 && activations[i].op == one.op;)
    if (isOther(activations[i]))
      return true;
  for (size_t i = index;
       ++i < activations.size() && activations[i].op == one.op;)
    if (isOther(activations[i]))
      return true;
  return false;
}

/// As the runtime's pool would, around what is held.
void Walker::placeResults() {
  PackingProblem problem =
      makePoolProblem(activations, findHeldMemory(function, layouts));
  PackingSolution solution = packArena(problem);
  memory.arena.bytes = std::max(memory.buffers, solution.peak);
  memory.arena.bound = std::min(memory.arena.bound, memory.arena.bytes);
  size_t held = problem.buffers.size() - activations.size();
  for (auto [i, activation] : llvm::enumerate(activations))
    if (!isAmbiguous(activations, i))
      memory.results.push_back({activation.op, solution.offsets[held + i],
                                problem.buffers[held + i].bytes});
}

FunctionMemory Walker::run() {
  memory.buffers = std::max(memory.buffers, stateEnd);
  for (auto read : function.getOps<ReadStateOp>())
    addArrived(read);
  for (func::FuncOp before : findPredecessors(function))
    addInFlight(before);
  measureActivations();
  measureBuffers();
  findFullest();
  placeResults();
  return std::move(memory);
}

//===----------------------------------------------------------------------===//
// Answers
//===----------------------------------------------------------------------===//

FailureOr<FunctionMemory>
fcdp::measureFunctionMemory(func::FuncOp function,
                            std::vector<HeldBytes> *timeline) {
  FailureOr<MemoryLayouts> layouts =
      computeMemoryLayouts(function->getParentOfType<ModuleOp>(), function);
  if (failed(layouts))
    return failure();
  return Walker(function, *layouts, timeline).run();
}

/// Of two micro-batches one is the first and one the last.
static bool isRun(func::FuncOp function) {
  auto role = function->getAttrOfType<RoleAttr>(kRoleAttr);
  return !role || role.getValue() != Role::next_microbatch ||
         getMicroBatches(function->getParentOfType<ModuleOp>()) > 2;
}

FailureOr<DeviceMemory> fcdp::measureDeviceMemory(ModuleOp module) {
  FailureOr<MemoryLayouts> layouts = computeMemoryLayouts(module);
  if (failed(layouts))
    return failure();
  DeviceMemory memory;
  memory.inputs = measureInputs(module);
  for (auto function : module.getOps<func::FuncOp>()) {
    const FunctionMemory &part = memory.functions.emplace_back(
        Walker(function, *layouts, nullptr).run());
    memory.arena.bytes = std::max(memory.arena.bytes, part.arena.bytes);
    memory.arena.bound = std::max(memory.arena.bound, part.arena.bound);
    memory.buffers = std::max(memory.buffers, part.buffers);
    memory.pool = std::max(memory.pool, part.pool);
    bool isFuller = !memory.fullest || part.held.total() > memory.held.total();
    if (!isFuller || !isRun(function))
      continue;
    memory.fullest = part.fullest;
    memory.held = part.held;
  }
  return memory;
}

FailureOr<int64_t> fcdp::peakDeviceBytes(ModuleOp module) {
  FailureOr<DeviceMemory> memory = measureDeviceMemory(module);
  if (failed(memory))
    return failure();
  return memory->total();
}
