// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Report/MeasuredStep.h"

#include "fcdp/Analysis/StepFunctions.h"
#include "fcdp/Report/Timeline.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace fcdp;

using Span = MeasuredTrace::Span;

namespace {
/// The operations of a step on one stream, in the order of issue.
struct StreamOps {
  std::vector<TimedWork> works;
  /// Index of the first operation that has no span yet.
  size_t next = 0;
};

class MeasuredStepBuilder {
public:
  MeasuredStepBuilder(ModuleOp module, const MeasuredTrace &trace)
      : module(module), trace(trace) {}

  llvm::Expected<SimulatedStep> build(const Cluster &cluster);

private:
  bool hasRun(func::FuncOp function) const;
  void collectOps();
  llvm::Error place(const Span &span);
  void addWait(const Span &wait);
  Instruction &instructionOf(const TimedWork &work);

  ModuleOp module;
  const MeasuredTrace &trace;
  llvm::SmallVector<Role> roles;
  SimulatedStep step;
  StepTimes times;
  std::array<StreamOps, kNumSimulatedStreams> streams;
  /// Measured work by stream, in order of begin.
  std::array<std::vector<TimedWork>, kNumSimulatedStreams> placed;
};
} // namespace

/// Returns whether `function` may be in the trace. If only some steps run a
/// micro-batch, the trace must have its update.
bool MeasuredStepBuilder::hasRun(func::FuncOp function) const {
  Role role = getRole(function);
  if (!runsInSomeSteps(role) || !isMicrobatch(role))
    return true;
  auto update = llvm::find_if(
      function.front(), [](Operation &op) { return updatesInSomeSteps(&op); });
  return update != function.front().end() &&
         llvm::any_of(trace.spans, [&](const Span &span) {
           return span.name == getLabel(&*update);
         });
}

void MeasuredStepBuilder::collectOps() {
  step.program.microBatches = getMicroBatches(module);
  for (func::FuncOp function : getFunctionsOf(module)) {
    std::optional<Role> role = findRole(function);
    if (!role || !hasRun(function))
      continue;
    StepProgram::Function &made = step.program.functions[*role];
    for (Operation &op : function.front().without_terminator()) {
      if (op.hasTrait<OrdersStreams>())
        continue;
      made.instructions.push_back(Instruction::makeWork(
          static_cast<uint8_t>(getStream(&op)), getActivity(&op), {}));
      made.ops.push_back(&op);
    }
  }
  // Outer updates that did not run in this step have no spans.
  roles = step.program.getRoles();
  for (auto [i, role] : llvm::enumerate(roles)) {
    const StepProgram::Function &function = step.program.functions[role];
    for (auto [j, instruction] : llvm::enumerate(function.instructions))
      streams[instruction.stream].works.push_back(
          {static_cast<uint32_t>(i), static_cast<uint32_t>(j), 0, 0});
  }
}

Instruction &MeasuredStepBuilder::instructionOf(const TimedWork &work) {
  return step.program.functions[roles[work.function]]
      .instructions[work.instruction];
}

/// Assigns `span` to the next operation of its name on its stream. Operations
/// that it skips are not runtime calls and have no spans.
llvm::Error MeasuredStepBuilder::place(const Span &span) {
  StreamOps &ops = streams[static_cast<size_t>(span.stream)];
  for (; ops.next < ops.works.size(); ++ops.next) {
    TimedWork work = ops.works[ops.next];
    Operation *op =
        step.program.functions[roles[work.function]].ops[work.instruction];
    if (getLabel(op) != span.name)
      continue;
    ++ops.next;
    work.begin = span.begin;
    work.end = span.end;
    double seconds = span.end - span.begin;
    auto activity = static_cast<unsigned>(instructionOf(work).activity);
    times.busy[activity] += seconds;
    if (span.stream == Stream::compute)
      times.onCompute[activity] += seconds;
    placed[static_cast<size_t>(span.stream)].push_back(work);
    step.trace.push_back(work);
    return llvm::Error::success();
  }
  return llvm::createStringError(
      llvm::Twine(trace.file) + ":" + llvm::Twine(span.line) +
      ": error: the plan has no '" + span.name + "' there on stream " +
      stringifyStream(span.stream) +
      "; plan the step with the options that it was compiled with");
}

/// Attributes each moment of `wait` to the work that runs at that time: on the
/// stream that is waited for or, if that stream is idle, on any other stream.
void MeasuredStepBuilder::addWait(const Span &wait) {
  // All streams but compute; the one that is waited for comes first.
  llvm::SmallVector<size_t> order{static_cast<size_t>(*wait.waitsFor)};
  for (size_t i = 0; i < placed.size(); ++i)
    if (i != kComputeStream && i != order[0])
      order.push_back(i);
  double time = wait.begin;
  while (time < wait.end) {
    double until = wait.end;
    const TimedWork *running = nullptr;
    for (size_t stream : order) {
      auto work =
          llvm::partition_point(placed[stream], [&](const TimedWork &work) {
            return work.end <= time;
          });
      if (work == placed[stream].end())
        continue;
      if (work->begin <= time && !running) {
        running = &*work;
        until = std::min(until, work->end);
      } else if (work->begin > time && !running) {
        // Work on a stream of higher priority may begin in the meantime.
        until = std::min(until, work->begin);
      }
    }
    if (running)
      times.exposed[static_cast<unsigned>(instructionOf(*running).activity)] +=
          until - time;
    time = until;
  }
}

llvm::Expected<SimulatedStep>
MeasuredStepBuilder::build(const Cluster &cluster) {
  collectOps();
  for (const Span &span : trace.spans)
    if (!span.waitsFor)
      if (llvm::Error error = place(span))
        return std::move(error);
  for (const Span &span : trace.spans)
    if (span.waitsFor && span.stream == Stream::compute)
      addWait(span);
  llvm::sort(step.trace, [](const TimedWork &a, const TimedWork &b) {
    return std::tie(a.end, a.function, a.instruction) <
           std::tie(b.end, b.function, b.instruction);
  });
  times.seconds = trace.seconds;
  step.prediction = simulateOn(module, cluster).prediction;
  step.prediction.times = times;
  double bubble = times.seconds;
  for (unsigned i = 0; i < kNumActivities; ++i)
    bubble -= times.onCompute[i] + times.exposed[i];
  step.prediction.bubble = std::max(bubble, 0.0);
  return std::move(step);
}

std::optional<RankSpread> fcdp::getSpread(const MeasuredTrace &trace) {
  if (trace.secondsOfRanks.empty())
    return std::nullopt;
  std::vector<double> sorted = trace.secondsOfRanks;
  llvm::sort(sorted);
  return RankSpread{static_cast<int64_t>(sorted.size()), trace.rank,
                    sorted.front(), sorted[(sorted.size() - 1) / 2],
                    sorted.back()};
}

llvm::Expected<SimulatedStep> fcdp::tellMeasured(ModuleOp module,
                                                 const MeasuredTrace &trace,
                                                 const Cluster &cluster) {
  return MeasuredStepBuilder(module, trace).build(cluster);
}
