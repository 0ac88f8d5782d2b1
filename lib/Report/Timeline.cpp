// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Report/Timeline.h"

#include "dialects/Aten/Aten.h"
#include "fcdp/Analysis/StepFunctions.h"

using namespace mlir;
using namespace fcdp;

namespace {
/// The memory in use at each operation of a function.
struct MemoryByOp {
  llvm::DenseMap<Operation *, size_t> positions;
  std::vector<BytesByUse> inUse;
};

class TimelineBuilder {
public:
  TimelineBuilder(ModuleOp module, const SimulatedStep &step)
      : module(module), step(step), roles(step.program.getRoles()) {}

  FailureOr<Timeline> build();

private:
  bool isShown(func::FuncOp function) const;
  LogicalResult measureMemory();
  void addSpans();
  void addFunctions();
  void addMemory(uint32_t function,
                 llvm::ArrayRef<const Timeline::Span *> compute);
  void addFullest(const MemoryByOp &memory, double time, size_t begin,
                  size_t end);

  ModuleOp module;
  const SimulatedStep &step;
  llvm::SmallVector<Role> roles;
  std::map<Role, MemoryByOp> memory;
  Timeline timeline;
};
} // namespace

/// Returns whether several functions of `role` may run in one step, of which
/// the step has run some.
static bool isOfSeveral(Role role) {
  return runsInSomeSteps(role) && !isMicrobatch(role);
}

/// Returns whether the step has run all of `function` by itself.
bool TimelineBuilder::isShown(func::FuncOp function) const {
  std::optional<Role> role = findRole(function);
  if (!role || isOfSeveral(*role) || !llvm::is_contained(roles, *role))
    return false;
  const std::vector<Operation *> &ops = step.program.functions.at(*role).ops;
  return ops.empty() || ops[0]->getParentOp() == function;
}

LogicalResult TimelineBuilder::measureMemory() {
  FailureOr<MemoryLayouts> layouts = computeMemoryLayouts(module);
  if (failed(layouts))
    return failure();
  for (func::FuncOp function : getFunctionsOf(module)) {
    if (!isShown(function))
      continue;
    MemoryByOp &byOp = memory[getRole(function)];
    measureFunctionMemory(function, *layouts, &byOp.inUse);
    for (Operation &op : function.front())
      byOp.positions.try_emplace(&op, byOp.positions.size());
  }
  return success();
}

void TimelineBuilder::addSpans() {
  for (const TimedWork &work : step.trace) {
    const StepProgram::Function &function =
        step.program.functions.at(roles[work.function]);
    const Instruction &instruction = function.instructions[work.instruction];
    timeline.spans.push_back(
        {static_cast<Stream>(instruction.stream), instruction.activity,
         work.function, function.ops[work.instruction], work.begin, work.end});
    timeline.begin = std::min(timeline.begin, work.begin);
  }
}

/// Adds a sample with the most memory in use at the positions [begin, end).
void TimelineBuilder::addFullest(const MemoryByOp &memory, double time,
                                 size_t begin, size_t end) {
  if (begin >= end)
    return;
  const BytesByUse *fullest = &memory.inUse[begin];
  for (size_t i = begin; i < end; ++i)
    if (memory.inUse[i].total() > fullest->total())
      fullest = &memory.inUse[i];
  std::vector<Timeline::Memory> &samples = timeline.memory;
  if (samples.empty() || samples.back().inUse.bytes != fullest->bytes)
    samples.push_back({time, *fullest});
}

void TimelineBuilder::addMemory(
    uint32_t function, llvm::ArrayRef<const Timeline::Span *> compute) {
  if (isOfSeveral(roles[function]))
    return;
  const MemoryByOp &byOp = memory.at(roles[function]);
  size_t position = 0;
  double time = function == 0 ? 0 : timeline.functions[function - 1].end;
  for (const Timeline::Span *span : compute) {
    size_t next = byOp.positions.lookup(span->op) + 1;
    addFullest(byOp, time, position, next);
    position = next;
    time = span->end;
  }
  addFullest(byOp, time, position, byOp.inUse.size());
}

void TimelineBuilder::addFunctions() {
  std::vector<std::vector<const Timeline::Span *>> compute(roles.size());
  for (const Timeline::Span &span : timeline.spans)
    if (span.stream == Stream::compute)
      compute[span.function].push_back(&span);
  double end = 0;
  for (auto [i, role] : llvm::enumerate(roles)) {
    addMemory(i, compute[i]);
    if (!compute[i].empty())
      end = compute[i].back()->end;
    timeline.functions.push_back({role, end});
  }
}

FailureOr<Timeline> TimelineBuilder::build() {
  if (failed(measureMemory()))
    return failure();
  timeline.seconds = step.prediction.times.seconds;
  addSpans();
  addFunctions();
  return std::move(timeline);
}

FailureOr<Timeline> fcdp::makeTimeline(ModuleOp module,
                                       const SimulatedStep &step) {
  return TimelineBuilder(module, step).build();
}

/// Returns the bucket that a collective, copy or update serves, or null.
static BucketOp findBucket(Operation *op) {
  FlatSymbolRefAttr storage = getStorage(op);
  Operation *found =
      storage ? SymbolTable::lookupNearestSymbolFrom(op, storage) : nullptr;
  if (auto state = dyn_cast_or_null<StateOp>(found))
    found = SymbolTable::lookupNearestSymbolFrom(op, state.getBucketAttr());
  return dyn_cast_or_null<BucketOp>(found);
}

std::string fcdp::getLabel(Operation *op) {
  if (auto call = dyn_cast<aten::CallOp>(op))
    return call.getCallee().str();
  StringRef name = op->getName().stripDialect();
  BucketOp bucket = findBucket(op);
  if (!bucket)
    return name.str();
  StringRef unit = bucket.getUnit();
  return (name + " " + (unit.empty() ? bucket.getName() : unit)).str();
}
