// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Simulation/StepProgram.h"

#include "fcdp/Analysis/FunctionBoundaries.h"
#include "fcdp/Cluster/CostModel.h"
#include "fcdp/Cluster/WorkKind.h"

using namespace mlir;
using namespace fcdp;

void StepProgram::delayIssue(double seconds) {
  InstructionList &first =
      functions.at(StepFamily(microBatches).getStep().front()).instructions;
  if (!first.empty())
    first.front().cost.issue += seconds;
}

llvm::SmallVector<const InstructionList *>
StepProgram::getRun(llvm::ArrayRef<Role> roles) const {
  llvm::SmallVector<const InstructionList *> run;
  for (Role role : roles)
    run.push_back(&functions.at(role).instructions);
  return run;
}

llvm::SmallVector<Role> StepProgram::getRoles() const {
  return StepFamily(microBatches).getStep([&](Role role) {
    return functions.count(role) != 0;
  });
}

Activity fcdp::getActivity(Operation *op) {
  switch (chooseStream(op)) {
  case Stream::compute:
    return isOfOptimizer(getWorkKind(op)) ? Activity::optimizer
                                          : Activity::compute;
  case Stream::inter:
    return Activity::interGather;
  case Stream::intra:
    return Activity::intraGather;
  // A late accumulate counts as part of the reduction that it follows.
  case Stream::inter_reduce:
    return Activity::interReduce;
  case Stream::intra_reduce:
    return Activity::intraReduce;
  case Stream::d2h:
    return Activity::hostStore;
  case Stream::h2d:
    return Activity::hostLoad;
  case Stream::host:
    return Activity::optimizer;
  }
  llvm_unreachable("unknown stream");
}

namespace {
class ProgramBuilder {
public:
  explicit ProgramBuilder(llvm::function_ref<Cost(Operation *)> costOf)
      : costOf(costOf) {}
  StepProgram::Function build(func::FuncOp function);

private:
  void add(StepProgram::Function &function, Operation *op);
  uint32_t getEvent(Value token);

  llvm::function_ref<Cost(Operation *)> costOf;
  uint32_t numEvents = 0;
  /// Seconds for issuing operations that do no work, since the last operation
  /// that does work.
  double issuing = 0;
  /// Events of tokens within a function, and of tokens that cross function
  /// boundaries.
  llvm::DenseMap<Value, uint32_t> events;
  llvm::DenseMap<BoundaryToken, uint32_t> crossings;
};
} // namespace

uint32_t ProgramBuilder::getEvent(Value token) {
  std::optional<BoundaryToken> crossing;
  if (auto record = token.getDefiningOp<RecordOp>()) {
    crossing = findLiveOut(record);
  } else {
    auto argument = cast<BlockArgument>(token);
    crossing = getLiveIn(cast<func::FuncOp>(argument.getOwner()->getParentOp()),
                         argument.getArgNumber());
  }
  auto add = [&](auto &map, auto key) {
    auto [event, isNew] = map.try_emplace(key, numEvents);
    numEvents += isNew;
    return event->second;
  };
  return crossing ? add(crossings, *crossing) : add(events, token);
}

void ProgramBuilder::add(StepProgram::Function &function, Operation *op) {
  Instruction instruction;
  auto setStream = [&](Stream stream) {
    instruction.stream = static_cast<uint8_t>(stream);
  };
  if (auto record = dyn_cast<RecordOp>(op)) {
    instruction.kind = Instruction::record;
    instruction.event = getEvent(record.getToken());
    setStream(record.getStream());
  } else if (auto wait = dyn_cast<WaitOp>(op)) {
    instruction.kind = Instruction::wait;
    instruction.event = getEvent(wait.getToken());
    setStream(wait.getStream());
  } else {
    instruction.activity = getActivity(op);
    instruction.cost = costOf(op);
    setStream(getStream(op));
    // Views, releases and similar operations do no work.
    if (instruction.cost.latency == 0 && instruction.cost.seconds == 0) {
      issuing += instruction.cost.issue;
      return;
    }
    instruction.cost.issue += std::exchange(issuing, 0);
  }
  function.instructions.push_back(instruction);
  function.ops.push_back(op);
}

StepProgram::Function ProgramBuilder::build(func::FuncOp function) {
  StepProgram::Function result;
  for (Operation &op : function.front().without_terminator())
    add(result, &op);
  return result;
}

StepProgram fcdp::makeStepProgram(ModuleOp module,
                                  llvm::function_ref<Cost(Operation *)> costOf,
                                  ArrayRef<func::FuncOp> functions) {
  StepProgram program;
  program.microBatches = getMicroBatches(module);
  ProgramBuilder builder(costOf);
  SmallVector<func::FuncOp> all(functions);
  for (func::FuncOp function :
       functions.empty() ? getFunctionsOf(module) : all) {
    std::optional<Role> role = findRole(function);
    if (role && runsInSomeSteps(*role))
      program.occasional.push_back({builder.build(function),
                                    getShareOfSteps(function),
                                    isMicrobatch(*role)});
    else if (role)
      program.functions[*role] = builder.build(function);
  }
  return program;
}

StepProgram fcdp::makeStepProgram(ModuleOp module, const Cluster &cluster,
                                  ArrayRef<func::FuncOp> functions) {
  CostModel model(cluster);
  StepProgram program = makeStepProgram(
      module, [&](Operation *op) { return model.costOf(op); }, functions);
  program.delayIssue(cluster.host.issue.step);
  return program;
}

LogicalResult fcdp::checkSimulable(ModuleOp module) {
  // A simulation of that many operations needs about 3 GB.
  constexpr int64_t kMost = 8'000'000;
  const int64_t microBatches = getMicroBatches(module);
  int64_t once = 0, repeated = 0;
  for (func::FuncOp function : getFunctionsOf(module)) {
    std::optional<Role> role = findRole(function);
    if (!role)
      continue;
    const auto ops = int64_t(function.front().getOperations().size());
    (*role == Role::next_microbatch ? repeated : once) += ops;
  }
  if (repeated == 0 || once + repeated * (microBatches - 2) <= kMost)
    return success();
  return module.emitError("--micro-batches: expected at most ")
         << std::max<int64_t>(kMost - once, 0) / repeated + 2
         << " to simulate a step of so many operations a micro-batch ("
         << repeated << "), got " << microBatches;
}

/// Keeps the work of the functions from `first` on, and counts functions and
/// time from there.
static void keepFrom(std::vector<TimedWork> &trace, uint32_t first,
                     double begin) {
  llvm::erase_if(trace,
                 [&](const TimedWork &work) { return work.function < first; });
  for (TimedWork &work : trace) {
    work.function -= first;
    work.begin -= begin;
    work.end -= begin;
  }
}

/// Adds `share` of the times of a function.
static void addTimes(StepTimes &times, const FunctionTimes &function,
                     double share) {
  for (unsigned i = 0; i < kNumActivities; ++i) {
    times.busy[i] += share * function.busy[i];
    times.onCompute[i] += share * function.onCompute[i];
    times.exposed[i] += share * function.exposed[i];
  }
}

/// Returns the times of the second of two steps in a row; the first one has no
/// step before it to overlap with.
static StepTimes simulateSecond(llvm::ArrayRef<const InstructionList *> first,
                                llvm::ArrayRef<const InstructionList *> second,
                                std::vector<TimedWork> *trace) {
  llvm::SmallVector<const InstructionList *> two(first);
  two.append(second.begin(), second.end());
  SimulatedRun run = simulate(two, trace, first.size());
  llvm::ArrayRef<FunctionTimes> functions = run.functions;
  size_t half = first.size();
  double begin = functions[half - 1].end;
  if (trace)
    keepFrom(*trace, half, begin);
  StepTimes times;
  times.seconds = functions.back().end - begin;
  for (const FunctionTimes &function : functions.drop_front(half))
    addTimes(times, function, 1);
  return times;
}

/// Returns the times of a function, during which nothing else runs.
static StepTimes simulateAlone(const InstructionList &function) {
  SimulatedRun run = simulate({&function});
  StepTimes times;
  times.seconds = run.seconds;
  addTimes(times, run.functions[0], 1);
  return times;
}

/// Returns the times of a step whose last micro-batch before the update is
/// replaced by `last`.
static StepTimes simulateWith(llvm::ArrayRef<const InstructionList *> step,
                              const InstructionList &last) {
  llvm::SmallVector<const InstructionList *> replaced(step);
  replaced[step.size() - 2] = &last;
  return simulateSecond(step, replaced, nullptr);
}

static void addTimes(StepTimes &times, const StepTimes &other, double share) {
  times.seconds += share * other.seconds;
  for (unsigned i = 0; i < kNumActivities; ++i) {
    times.busy[i] += share * other.busy[i];
    times.onCompute[i] += share * other.onCompute[i];
    times.exposed[i] += share * other.exposed[i];
  }
}

/// Adds the mean time per step of functions that some steps run.
static void addOccasional(StepTimes &times, const StepProgram &program,
                          llvm::ArrayRef<const InstructionList *> step) {
  const StepTimes plain = times;
  for (const auto &[function, share, replacesLast] : program.occasional) {
    if (replacesLast) {
      addTimes(times, simulateWith(step, function.instructions), share);
      addTimes(times, plain, -share);
    } else {
      addTimes(times, simulateAlone(function.instructions), share);
    }
  }
  times.occasionalSeconds = times.seconds - plain.seconds;
}

StepTimes fcdp::simulateStep(const StepProgram &program,
                             std::vector<TimedWork> *trace) {
  llvm::SmallVector<const InstructionList *> step =
      program.getRun(StepFamily(program.microBatches).getStep());
  StepTimes times = simulateSecond(step, step, trace);
  addOccasional(times, program, step);
  return times;
}
