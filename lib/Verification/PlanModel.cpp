// SPDX-License-Identifier: Apache-2.0

#include "PlanModel.h"

#include "dialects/Aten/Aten.h"
#include "fcdp/Analysis/Aliases.h"
#include "fcdp/Analysis/FunctionBoundaries.h"
#include "fcdp/Analysis/InPlaceGradients.h"
#include "fcdp/Analysis/Traffic.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace fcdp;

namespace {
/// The position of a value among nested values.
struct Nesting {
  int32_t outermost;
  unsigned depth = 0;
};

class PlanBuilder {
public:
  PlanBuilder(ModuleOp module, ArrayRef<FreeRange> freeRanges, PlanModel &plan)
      : module(module), freeRanges(freeRanges), plan(plan) {}
  LogicalResult build();

private:
  LogicalResult addStates();
  LogicalResult addFunction(func::FuncOp op);
  LogicalResult addBuffers(FunctionModel &function);
  void nest(FunctionModel &function);
  void placeParts(FunctionModel &function, ArrayRef<Nesting> nestings);
  void addFree(const FunctionModel &function);
  void addInPlace(FunctionModel &function);
  LogicalResult addInstruction(FunctionModel &function, Operation *op);
  /// Records the memory that the results of `op` refer to.
  void addRoots(Operation *op);
  Extent getExtent(BufferAttr buffer) const;
  int32_t lookUpState(StringAttr bucket, StateRole role) const;

  ModuleOp module;
  ArrayRef<FreeRange> freeRanges;
  PlanModel &plan;
  llvm::DenseMap<StringAttr, int32_t> buckets, states;
  llvm::DenseMap<Value, int32_t> buffers;
  llvm::DenseMap<Value, SmallVector<Root, 1>> roots;
  /// By producer of an in-place gradient, the pack's buffer and the bytes that
  /// it writes.
  llvm::DenseMap<Operation *, std::pair<int32_t, Extent>> inPlace;
  /// Shape numbers, by the buffers of the block and the values nested inside
  /// it.
  std::map<std::array<const void *, kNumPlanes>, int32_t> shapes;
  /// Free ranges by operation of the current function.
  llvm::DenseMap<Operation *, std::vector<Extent>> free;
};
} // namespace

Extent PlanBuilder::getExtent(BufferAttr buffer) const {
  if (buffer.getBytes() == 0)
    return {};
  uint64_t end = buffer.getOffset() + buffer.getBytes();
  // On the host, this is the part of local rank 0. The parts of the others have
  // the same layout.
  if (buffer.getArena() == Arena::host)
    return {buffer.getOffset(), static_cast<int64_t>(end)};
  end = llvm::SaturatingMultiplyAdd<uint64_t>(plan.mesh.getNode() - 1,
                                              buffer.getNodeStride(), end);
  end = llvm::SaturatingMultiplyAdd<uint64_t>(plan.mesh.getLocal() - 1,
                                              buffer.getLocalStride(), end);
  return {buffer.getOffset(),
          static_cast<int64_t>(std::min<uint64_t>(end, INT64_MAX))};
}

int32_t PlanBuilder::lookUpState(StringAttr bucket, StateRole role) const {
  auto it = buckets.find(bucket);
  return it == buckets.end() ? -1 : plan.buckets[it->second].getState(role);
}

LogicalResult PlanBuilder::addStates() {
  for (auto bucket : module.getOps<BucketOp>()) {
    buckets[bucket.getSymNameAttr()] = plan.buckets.size();
    plan.buckets.push_back({bucket, {}});
    plan.buckets.back().states.fill(-1);
  }
  for (auto state : module.getOps<StateOp>()) {
    auto bucket = buckets.find(state.getBucketAttr().getAttr());
    if (bucket == buckets.end() || !state.getBuffer())
      return state.emitOpError("expected a bucket and a buffer; run "
                               "--fcdp-verify-planned");
    int32_t index = plan.states.size();
    states[state.getSymNameAttr()] = index;
    plan.buckets[bucket->second].states[static_cast<size_t>(state.getRole())] =
        index;
    plan.states.push_back(
        {state, bucket->second, getExtent(*state.getBuffer())});
  }
  return success();
}

/// Sets the strides, in bytes, between the inputs of `gather` inside its
/// result, over the axes of the gather. Over both axes, rank (n, l) owns shard
/// l N + n.
static void setStrides(CollectiveOpInterface gather, MeshOp mesh,
                       int64_t &nodeStride, int64_t &localStride) {
  int64_t part = byteSize(cast<RankedTensorType>(gather.getInput().getType()));
  bool isOverNodes = gather.isOverAxis(Axis::node);
  if (isOverNodes)
    nodeStride = part;
  if (gather.isOverAxis(Axis::local))
    localStride = isOverNodes ? mesh.getNode() * part : part;
}

/// Returns whether the input of `gather` is at its own place inside the result.
static bool isInPlace(CollectiveOpInterface gather, MeshOp mesh) {
  Operation *input = gather.getInput().getDefiningOp();
  if (!isBuffered(input))
    return false;
  BufferAttr whole = gather.getBufferAttr(), part = getBuffer(input);
  int64_t nodeStride = whole.getNodeStride();
  int64_t localStride = whole.getLocalStride();
  setStrides(gather, mesh, nodeStride, localStride);
  return part == BufferAttr::get(gather.getContext(), whole.getArena(),
                                 whole.getOffset(), part.getBytes(), nodeStride,
                                 localStride);
}

LogicalResult PlanBuilder::addBuffers(FunctionModel &function) {
  for (auto op : function.op.getOps<BufferedOpInterface>()) {
    if (!op.getBufferAttr() || (op.getScratchBytes() && !op.getScratchAttr()))
      return op->emitOpError("expected a buffer; run --fcdp-verify-planned");
    buffers[op->getResult(0)] = function.buffers.size();
    Extent extent = getExtent(op.getBufferAttr());
    function.buffers.push_back({op, extent, extent});
  }
  nest(function);
  return success();
}

/// Finds which values are inside which. It goes from the last to the first, so
/// that a gather precedes its input.
void PlanBuilder::nest(FunctionModel &function) {
  std::vector<Nesting> nestings;
  for (size_t i = 0; i < function.buffers.size(); ++i)
    nestings.push_back({static_cast<int32_t>(i)});
  for (size_t i = function.buffers.size(); i-- > 0;) {
    CollectiveOpInterface gather = asGather(function.buffers[i].op);
    if (!gather || nestings[i].depth + 1 == kNumPlanes ||
        !isInPlace(gather, plan.mesh))
      continue;
    int32_t part = buffers.lookup(gather.getInput());
    if (nestings[part].depth != 0)
      continue; // inside another one
    function.buffers[i].part = part;
    nestings[part] = {nestings[i].outermost, nestings[i].depth + 1};
  }
  placeParts(function, nestings);
}

/// Gives each nested value the planes of its block.
void PlanBuilder::placeParts(FunctionModel &function,
                             ArrayRef<Nesting> nestings) {
  for (size_t i = 0; i < nestings.size(); ++i) {
    BufferModel &buffer = function.buffers[i];
    if (buffer.part < 0 && nestings[i].depth == 0)
      continue;
    const Extent &block = function.buffers[nestings[i].outermost].extent;
    std::array<const void *, kNumPlanes> key{};
    int32_t inner = nestings[i].outermost;
    for (unsigned depth = 0; inner >= 0; ++depth) {
      key[depth] = getBuffer(function.buffers[inner].op).getAsOpaquePointer();
      inner = function.buffers[inner].part;
    }
    int32_t shape = shapes.try_emplace(key, shapes.size() + 1).first->second;
    unsigned depth = nestings[i].depth;
    uint8_t planes = kAllPlanes & (kAllPlanes << depth);
    buffer.extent = {block.begin, block.end, planes, shape};
    buffer.written = buffer.extent;
    if (buffer.part >= 0)
      buffer.written.planes = 1 << depth;
  }
}

/// Returns the bytes of `parameter` in the result of `pack`.
static Extent getPlace(PackOp pack, const BufferModel &buffer, BucketOp bucket,
                       FlatSymbolRefAttr parameter) {
  int64_t size = elementBytes(pack.getResult().getType().getElementType());
  for (auto member : bucket.getMembers().getAsRange<MemberAttr>()) {
    if (member.getParameter() != parameter)
      continue;
    for (auto [value, name] :
         llvm::zip_equal(pack.getValues(), pack.getParameters()))
      if (name == parameter) {
        int64_t begin = buffer.extent.begin + member.getOffset() * size;
        auto type = cast<RankedTensorType>(value.getType());
        return {begin, begin + byteSize(type)};
      }
  }
  return {};
}

void PlanBuilder::addInPlace(FunctionModel &function) {
  inPlace.clear();
  for (auto pack : function.op.getOps<PackOp>()) {
    auto bucket = buckets.find(pack.getBucketAttr().getAttr());
    if (bucket == buckets.end())
      continue; // addInstruction refuses it
    int32_t buffer = buffers.lookup(pack.getResult());
    for (const InPlaceGradient &gradient : getInPlaceGradients(pack))
      inPlace[gradient.producer] = {buffer,
                                    getPlace(pack, function.buffers[buffer],
                                             plan.buckets[bucket->second].op,
                                             gradient.parameter)};
  }
}

void PlanBuilder::addRoots(Operation *op) {
  if (isBuffered(op)) {
    roots[op->getResult(0)] = {{buffers.lookup(op->getResult(0)), -1}};
  } else if (auto read = dyn_cast<ReadShardOp>(op)) {
    int32_t state =
        lookUpState(read.getSourceAttr().getAttr(), StateRole::shard);
    if (state >= 0) // else it is a parameter's, which has no place
      roots[read.getResult()] = {{-1, state}};
  } else if (auto read = dyn_cast<ReadStateOp>(op)) {
    roots[read.getResult()] = {
        {-1, states.lookup(read.getSourceAttr().getAttr())}};
  } else if (mayAlias(op)) {
    SmallVector<Root, 1> all;
    for (Value operand : op->getOperands())
      for (Root root : roots.lookup(operand))
        if (!llvm::is_contained(all, root))
          all.push_back(root);
    if (!all.empty())
      for (Value result : op->getResults())
        roots[result] = all;
  }
}

/// Records the free ranges of the device arena at the first and the last
/// operation that may place results in them. In between, only operators on
/// compute may write these bytes.
void PlanBuilder::addFree(const FunctionModel &function) {
  free.clear();
  SmallVector<Operation *> users;
  // By position, the number of users before it.
  SmallVector<int64_t> counts;
  for (Operation &op : func::FuncOp(function.op).front()) {
    counts.push_back(users.size());
    if (runsOperators(&op) && !isView(&op)) // a view makes no memory
      users.push_back(&op);
  }
  counts.push_back(users.size());
  for (const FreeRange &range : freeRanges) {
    if (range.function != function.op)
      continue;
    int64_t first = counts[range.begin], last = counts[range.end] - 1;
    if (last < first)
      continue;
    Extent extent{range.offset, range.offset + range.bytes};
    free[users[first]].push_back(extent);
    if (first != last)
      free[users[last]].push_back(extent);
  }
}

LogicalResult PlanBuilder::addInstruction(FunctionModel &function,
                                          Operation *op) {
  bool isSilent = isa<ReadShardOp, ReadStateOp>(op) ||
                  (isView(op) && !isa<ViewMemberOp>(op));
  auto freeHere = free.find(op);
  if (isSilent && freeHere == free.end())
    return success();
  PlanInstruction instruction{op, getStream(op)};
  if (!isSilent)
    for (Value operand : op->getOperands())
      for (Root root : roots.lookup(operand))
        if (!llvm::is_contained(instruction.reads, root))
          instruction.reads.push_back(root);
  if (freeHere != free.end())
    instruction.freeRanges = std::move(freeHere->second);
  FlatSymbolRefAttr storage = getStorage(op);
  bool isOurs = storage || isBuffered(op) || isa<StreamedOpInterface>(op) ||
                isa<ClipGradientsOp, UnscaleGradientsOp, DropValueOp>(op) ||
                llvm::any_of(op->getUsers(), llvm::IsaPred<StoreValueOp>);
  auto place = inPlace.find(op);
  if (place != inPlace.end())
    std::tie(instruction.packed, instruction.place) = place->second;
  else if (!isOurs && instruction.reads.empty() &&
           instruction.freeRanges.empty())
    return success();
  if (isBuffered(op))
    instruction.result = buffers.lookup(op->getResult(0));
  if (storage && !isSilent) {
    if (auto it = buckets.find(storage.getAttr()); it != buckets.end())
      instruction.bucket = it->second;
    if (auto it = states.find(storage.getAttr()); it != states.end())
      instruction.state = it->second;
    if (instruction.bucket < 0 && instruction.state < 0)
      return op->emitOpError("expected a bucket or a state, got ") << storage;
  }
  if (auto collective = dyn_cast<CollectiveOpInterface>(op);
      collective && collective.getMessageStateAttr()) {
    auto state = states.find(collective.getMessageStateAttr().getAttr());
    if (state == states.end())
      return op->emitOpError("expected a state, got ")
             << collective.getMessageStateAttr();
    instruction.reference = state->second;
  }
  if (isa<AccumulateOp>(op) && instruction.state < 0) {
    instruction.state =
        plan.buckets[instruction.bucket].getState(StateRole::grad);
    if (instruction.state < 0)
      return op->emitOpError("expected a state to hold its value");
  }
  if (instruction.bucket < 0 && instruction.state >= 0)
    instruction.bucket = plan.states[instruction.state].bucket;
  function.instructions.push_back(std::move(instruction));
  return success();
}

LogicalResult PlanBuilder::addFunction(func::FuncOp op) {
  FamilyMember which = getMember(op);
  FunctionModel &function = plan.functions[which];
  function.op = op;
  function.role = which.role;
  function.number = which.number;
  for (BlockArgument token : op.getArguments())
    if (std::optional<int64_t> event = findEvent(token))
      function.liveInEvents.push_back(*event);
  buffers.clear();
  roots.clear();
  if (failed(addBuffers(function)))
    return failure();
  addFree(function);
  addInPlace(function);
  for (Operation &inner : op.front()) {
    addRoots(&inner);
    if (failed(addInstruction(function, &inner)))
      return failure();
  }
  return success();
}

LogicalResult PlanBuilder::build() {
  plan.mesh = getMesh(module);
  llvm::copy(measureArenas(module).values, plan.arenaBytes.values.begin());
  if (failed(addStates()))
    return failure();
  for (auto function : module.getOps<func::FuncOp>())
    if (failed(addFunction(function)))
      return failure();
  return success();
}

FailureOr<PlanModel> PlanModel::build(ModuleOp module,
                                      ArrayRef<FreeRange> free) {
  PlanModel plan;
  if (failed(PlanBuilder(module, free, plan).build()))
    return failure();
  return plan;
}

std::string fcdp::describeBucket(BucketOp bucket) {
  std::string name = ("@" + bucket.getSymName()).str();
  auto members = bucket.getMembers().getAsRange<MemberAttr>();
  if (members.empty())
    return name;
  return ("'" + (*members.begin()).getParameter().getValue() + "' of " + name)
      .str();
}

std::string PlanModel::describe(int32_t bucket) const {
  return describeBucket(buckets[bucket].op);
}

std::string PlanModel::describe(const FunctionModel &function,
                                const PlanInstruction &instruction) const {
  if (instruction.bucket >= 0)
    return describe(instruction.bucket);
  for (Root root : instruction.reads) {
    if (root.state >= 0)
      return describe(states[root.state].bucket);
    FlatSymbolRefAttr name = getStorage(function.buffers[root.buffer].op);
    for (const BucketModel &bucket : buckets)
      if (name && BucketOp(bucket.op).getSymNameAttr() == name.getAttr())
        return describeBucket(bucket.op);
    for (const StateModel &state : states)
      if (name && StateOp(state.op).getSymNameAttr() == name.getAttr())
        return describe(state.bucket);
  }
  return {};
}
