// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Planning/Memory/DeviceMemory.h"

#include "dialects/Fcdp/Kernels.h"
#include "fcdp/Analysis/EarlyUpdates.h"
#include "fcdp/Analysis/StepFunctions.h"
#include "fcdp/Planning/Memory/PoolProblem.h"
#include "fcdp/Planning/Memory/ReservedMemory.h"
#include "llvm/Support/MathExtras.h"

#include <numeric>

using namespace mlir;
using namespace fcdp;

llvm::StringRef fcdp::getName(MemoryUse what) {
  switch (what) {
  case MemoryUse::Shards:
    return "shards";
  case MemoryUse::Optimizer:
    return "optimizer";
  case MemoryUse::Gathered:
    return "gathered";
  case MemoryUse::Gradients:
    return "gradients";
  case MemoryUse::Activations:
    return "activations";
  case MemoryUse::Scratch:
    return "scratch";
  case MemoryUse::Inputs:
    return "inputs";
  }
  llvm_unreachable("unknown use of memory");
}

int64_t BytesByUse::total() const {
  return std::accumulate(bytes.begin(), bytes.end(), int64_t(0));
}

MemoryUse fcdp::getMemoryUse(StateRole role) {
  const StateRoleRecord &record = getRecord(role);
  if (record.kind == StateKind::parameters)
    return MemoryUse::Shards;
  if (record.kind == StateKind::copy)
    return MemoryUse::Gathered;
  return record.isOfGradients ? MemoryUse::Gradients : MemoryUse::Optimizer;
}

static MemoryUse classify(Operation *op) {
  if (isa<LoadValueOp>(op))
    return MemoryUse::Activations;
  if (isa<StateLoadOp>(op))
    return MemoryUse::Optimizer;
  auto load = dyn_cast<CacheLoadOp>(op);
  bool isGradient = !isa<FetchOpInterface>(op) || (load && load.isOfGradient());
  return isGradient ? MemoryUse::Gradients : MemoryUse::Gathered;
}

namespace {
/// Bytes [begin, end) of the device arena, on all ranks together.
struct Extent {
  int64_t begin, end;
  MemoryUse what;
};

/// Goes through a function with the memory that its timeline has in use.
class Walker {
public:
  Walker(func::FuncOp function, const MemoryLayouts &layouts,
         std::vector<BytesByUse> *byPosition);

  FunctionMemory run();

private:
  void addStates(ModuleOp module);
  void addBuffers(ArrayRef<BufferUse> buffers);
  void add(MemoryUse what, BufferAttr buffer, const MemorySpan &span);
  void measureBuffers();
  void measureActivations();
  void advance(size_t position);
  void findFullest();
  void placeResults();

  func::FuncOp function;
  const MemoryLayouts &layouts;
  const MemoryLayout &layout;
  const FunctionTimeline &timeline;
  std::vector<BytesByUse> *byPosition;
  MeshOp mesh;
  /// The extents whose use begins, and those whose use ends, at each position,
  /// as indices of `extents`.
  std::vector<SmallVector<size_t, 1>> begins, ends;
  std::vector<Extent> extents;
  /// The indices of the extents that are in use now.
  SmallVector<size_t> live;
  BytesByUse states, buffers;
  int64_t inputs = 0, stateEnd = 0;
  /// Bytes of the arena that states and values use now.
  int64_t buffersNow = 0;
  /// The growth of activations at each position: their bytes, and their bytes
  /// in the pool.
  std::vector<int64_t> activationBytes, poolBytes;
  FunctionMemory memory;
};
} // namespace

//===----------------------------------------------------------------------===//
// What is in use
//===----------------------------------------------------------------------===//

/// Returns the bytes of the inputs and buffers of the model.
static int64_t measureInputs(ModuleOp module) {
  int64_t bytes = 0;
  for (InputOp input : getInputsWithMemory(module))
    bytes += byteSize(cast<RankedTensorType>(input.getType()));
  for (auto buffer : module.getOps<BufferOp>())
    bytes += byteSize(cast<RankedTensorType>(buffer.getType()));
  return bytes;
}

Walker::Walker(func::FuncOp function, const MemoryLayouts &layouts,
               std::vector<BytesByUse> *byPosition)
    : function(function), layouts(layouts), layout(layouts.lookup(function)),
      timeline(layouts.timeline.lookup(function)), byPosition(byPosition),
      begins(timeline.length + 1), ends(timeline.length + 1) {
  auto module = function->getParentOfType<ModuleOp>();
  mesh = getMesh(module);
  addStates(module);
  inputs = measureInputs(module);
}

void Walker::addStates(ModuleOp module) {
  // Gradients that have the same memory count once.
  int64_t sharedBytes = 0;
  llvm::SmallDenseSet<Operation *> shared;
  for (StateOp state : findSharedGradients(module)) {
    sharedBytes = std::max(sharedBytes, byteSize(state.getTensorType()));
    shared.insert(state);
  }
  states[getMemoryUse(StateRole::grad)] += sharedBytes;
  for (auto state : module.getOps<StateOp>()) {
    BufferAttr buffer = layout.lookup(state);
    if (!buffer || buffer.getArena() != Arena::device)
      continue;
    int64_t end = buffer.getOffset() + buffer.getBytes();
    memory.buffers = std::max(memory.buffers, end);
    if (state.getRole() == StateRole::prefetched)
      continue; // shares its memory with values
    if (!shared.contains(state))
      states[getMemoryUse(state.getRole())] += buffer.getBytes();
    stateEnd = std::max(stateEnd, end);
  }
}

void Walker::add(MemoryUse what, BufferAttr buffer, const MemorySpan &span) {
  // The bytes of states have been counted.
  if (!buffer || buffer.getOffset() < stateEnd || buffer.getBytes() == 0 ||
      span.firstWrite >= span.release)
    return;
  auto [begin, end] = getExtent(buffer, mesh);
  memory.buffers = std::max(memory.buffers, end);
  begins[span.firstWrite].push_back(extents.size());
  ends[span.release].push_back(extents.size());
  extents.push_back({begin, end, what});
}

void Walker::addBuffers(ArrayRef<BufferUse> buffers) {
  for (const BufferUse &buffer : buffers)
    add(buffer.isScratch ? MemoryUse::Scratch : classify(buffer.op),
        layouts.lookup(buffer), buffer.span);
}

/// Counts each byte once: a gather's input may be inside its result.
void Walker::measureBuffers() {
  llvm::sort(live, [&](size_t a, size_t b) {
    return std::tie(extents[a].begin, extents[b].end, a) <
           std::tie(extents[b].begin, extents[a].end, b);
  });
  buffers = {};
  int64_t counted = stateEnd, aligned = 0;
  for (size_t index : live) {
    const Extent &extent = extents[index];
    int64_t bytes = extent.end - std::max(extent.begin, counted);
    if (bytes <= 0)
      continue;
    buffers[extent.what] += bytes;
    aligned += llvm::alignTo(bytes, kBufferAlignment);
    counted = extent.end;
  }
  buffersNow = llvm::alignTo(stateEnd, kBufferAlignment) + aligned;
}

/// Counts each activation with the pool's tag in front.
void Walker::measureActivations() {
  activationBytes.assign(timeline.length + 1, 0);
  poolBytes.assign(timeline.length + 1, 0);
  for (const Activation &activation : timeline.results) {
    int64_t bytes = getPoolBytes(activation.bytes);
    activationBytes[activation.begin] += activation.bytes;
    activationBytes[activation.end] -= activation.bytes;
    poolBytes[activation.begin] += bytes;
    poolBytes[activation.end] -= bytes;
  }
}

void Walker::advance(size_t position) {
  if (begins[position].empty() && ends[position].empty())
    return;
  llvm::erase_if(live, [&](size_t index) {
    return llvm::is_contained(ends[position], index);
  });
  llvm::append_range(live, begins[position]);
  measureBuffers();
}

void Walker::findFullest() {
  int64_t most = -1, activationsNow = 0, poolNow = 0;
  for (auto [position, op] : llvm::enumerate(function.front())) {
    advance(position);
    activationsNow += activationBytes[position];
    poolNow += poolBytes[position];
    memory.pool = std::max(memory.pool, poolNow);
    memory.arena.bound = std::max(memory.arena.bound, buffersNow + poolNow);
    BytesByUse now = states;
    for (size_t i = 0; i < kMemoryUseCount; ++i)
      now.bytes[i] += buffers.bytes[i];
    now[MemoryUse::Activations] += activationsNow;
    now[MemoryUse::Inputs] += inputs;
    if (byPosition)
      byPosition->push_back(now);
    if (now.total() <= most)
      continue;
    most = now.total();
    memory.fullest = &op;
    memory.inUse = now;
  }
}

/// Returns whether `activations[index]` could be mistaken for another result of
/// its operator that is in use at another time: operators allocate their
/// results in any order, except for kernels, which have the order of results.
static bool isAmbiguous(ArrayRef<Activation> activations, size_t index) {
  const Activation &one = activations[index];
  if (auto call = dyn_cast<aten::CallOp>(one.op); call && isKernelCall(call))
    return false;
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

/// Places results as the runtime's pool would, around reserved memory.
void Walker::placeResults() {
  ArrayRef<Activation> activations = timeline.results;
  memory.reserved = findReservedMemory(function, layouts);
  PackingProblem problem = makePoolProblem(activations, memory.reserved);
  PackingSolution solution = packArena(problem);
  memory.arena.bytes = std::max(memory.buffers, solution.peak);
  memory.arena.bound = std::min(memory.arena.bound, memory.arena.bytes);
  size_t reserved = problem.buffers.size() - activations.size();
  for (auto [i, activation] : llvm::enumerate(activations))
    memory.results.push_back({activation.op, solution.offsets[reserved + i],
                              problem.buffers[reserved + i].bytes,
                              isAmbiguous(activations, i)});
}

FunctionMemory Walker::run() {
  for (const CopyUse &copy : timeline.copies)
    add(MemoryUse::Gathered, layout.lookup(copy.state), copy.span);
  addBuffers(timeline.liveIns);
  addBuffers(timeline.buffers);
  measureActivations();
  measureBuffers();
  findFullest();
  placeResults();
  return std::move(memory);
}

//===----------------------------------------------------------------------===//
// Answers
//===----------------------------------------------------------------------===//

FunctionMemory
fcdp::measureFunctionMemory(func::FuncOp function, const MemoryLayouts &layouts,
                            std::vector<BytesByUse> *byPosition) {
  return Walker(function, layouts, byPosition).run();
}

FailureOr<DeviceMemory> fcdp::measureDeviceMemory(ModuleOp module) {
  FailureOr<MemoryLayouts> layouts = computeMemoryLayouts(module);
  if (failed(layouts))
    return failure();
  DeviceMemory memory;
  memory.inputs = measureInputs(module);
  const StepFamily family = getFamily(module);
  for (auto function : module.getOps<func::FuncOp>()) {
    const FunctionMemory &part = memory.functions.emplace_back(
        measureFunctionMemory(function, *layouts));
    memory.arena.bytes = std::max(memory.arena.bytes, part.arena.bytes);
    memory.arena.bound = std::max(memory.arena.bound, part.arena.bound);
    memory.buffers = std::max(memory.buffers, part.buffers);
    memory.pool = std::max(memory.pool, part.pool);
    bool isFuller =
        !memory.fullest || part.inUse.total() > memory.inUse.total();
    if (!isFuller || !family.runs(getRole(function)))
      continue;
    memory.fullest = part.fullest;
    memory.inUse = part.inUse;
  }
  return memory;
}

DeviceMemoryAnalysis::DeviceMemoryAnalysis(Operation *module)
    : module(cast<ModuleOp>(module)) {}

FailureOr<const DeviceMemory *> DeviceMemoryAnalysis::get() {
  if (!memory)
    memory = measureDeviceMemory(module);
  if (failed(*memory))
    return failure();
  return &**memory;
}

FailureOr<int64_t> fcdp::peakDeviceBytes(ModuleOp module) {
  FailureOr<DeviceMemory> memory = measureDeviceMemory(module);
  if (failed(memory))
    return failure();
  return memory->total();
}
