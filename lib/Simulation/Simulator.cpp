// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Simulation/Simulator.h"

#include "llvm/ADT/SmallVector.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

using namespace fcdp;

llvm::StringRef fcdp::stringifyActivity(Activity activity) {
  static constexpr llvm::StringLiteral names[kNumActivities] = {
      "compute",      "optimizer",    "inter gather",
      "inter reduce", "intra gather", "intra reduce",
      "host store",   "host load",    "host issue"};
  return names[static_cast<unsigned>(activity)];
}

namespace {
constexpr uint32_t kNoRecord = std::numeric_limits<uint32_t>::max();

/// An instruction of a run.
struct Issued {
  const Instruction *instruction;
  /// Its index in the run.
  uint32_t function;
  /// The number of this record in the run or, for a wait, of the record that it
  /// waits for.
  uint32_t record = kNoRecord;
  /// Seconds from the time at which the host begins to issue, or from the end
  /// of its wait, until this is issued.
  double issued = 0;
};

struct StreamState {
  std::vector<Issued> queue;
  /// The rest of the queue, after all instructions are issued.
  const Issued *next = nullptr, *end = nullptr;
  /// Whether `next` is work that has begun.
  bool isWorking = false;
  double begin = 0;
  /// The remaining seconds of `next`.
  double latency = 0, seconds = 0;

  bool isDone() const { return next == end; }
  const Issued &front() const { return *next; }
};

class Simulator {
public:
  Simulator(llvm::ArrayRef<const InstructionList *> run,
            std::vector<TimedWork> *trace,
            std::optional<size_t> hostWaitsBefore);
  SimulatedRun take();

private:
  void issue(uint32_t function, const InstructionList &list);
  /// Advances the stream until it begins work or has to wait. Returns whether
  /// it advanced.
  bool advance(StreamState &stream);
  void finish(StreamState &stream);
  void leave(StreamState &stream);
  /// Ends the host's wait if compute has finished the functions that it waits
  /// for.
  void endHostWait();
  void pass(double seconds);
  double findNextEvent() const;
  void findSlowdowns();
  std::optional<Activity> findWhatHolds(const StreamState &stream) const;
  /// Returns the seconds until the stream's next instruction is issued: 0 if it
  /// is issued already, and infinity if the host waits for compute first.
  double findIssueDelay(const StreamState &stream) const;
  std::array<StreamState, kNumSimulatedStreams> streams;
  std::vector<char> recorded;
  /// The stream of each record.
  std::vector<uint8_t> streamOf;
  /// The latest record of each event.
  std::vector<uint32_t> latestRecord;
  /// Working streams that are past their latency, by resource.
  std::array<unsigned, kNumResources> users{};
  /// Factor by which the work of each stream is slower now than alone.
  std::array<double, kNumSimulatedStreams> slowdowns{};
  std::vector<TimedWork> *trace;
  /// First instruction of each function, to number those in the trace.
  llvm::SmallVector<const Instruction *> firstOf;
  SimulatedRun result;
  double now = 0;
  /// The seconds that the host has spent issuing since its wait.
  double issuing = 0;
  /// The first function after the host's wait, and the time at which the wait
  /// ends.
  uint32_t waitsBefore = kNoRecord;
  double waitEnds = std::numeric_limits<double>::infinity();
};
} // namespace

static bool takesTimeToIssue(llvm::ArrayRef<const InstructionList *> run) {
  return llvm::any_of(run, [](const InstructionList *list) {
    return llvm::any_of(*list, [](const Instruction &instruction) {
      return instruction.cost.issue > 0;
    });
  });
}

Simulator::Simulator(llvm::ArrayRef<const InstructionList *> run,
                     std::vector<TimedWork> *trace,
                     std::optional<size_t> hostWaitsBefore)
    : trace(trace) {
  if (hostWaitsBefore && takesTimeToIssue(run))
    waitsBefore = *hostWaitsBefore;
  result.functions.resize(run.size());
  for (size_t i = 0; i < run.size(); ++i) {
    firstOf.push_back(run[i]->data());
    if (i == waitsBefore)
      issuing = 0;
    issue(i, *run[i]);
  }
  for (StreamState &stream : streams) {
    stream.next = stream.queue.data();
    stream.end = stream.next + stream.queue.size();
  }
}

void Simulator::issue(uint32_t function, const InstructionList &list) {
  for (const Instruction &instruction : list) {
    issuing += instruction.cost.issue;
    Issued issued{&instruction, function, kNoRecord, issuing};
    if (instruction.kind == Instruction::record) {
      issued.record = recorded.size();
      if (instruction.event >= latestRecord.size())
        latestRecord.resize(instruction.event + 1, kNoRecord);
      latestRecord[instruction.event] = issued.record;
      recorded.push_back(false);
      streamOf.push_back(instruction.stream);
    } else if (instruction.kind == Instruction::wait) {
      if (instruction.event < latestRecord.size())
        issued.record = latestRecord[instruction.event];
      if (issued.record == kNoRecord)
        continue;
    }
    streams[instruction.stream].queue.push_back(issued);
  }
}

double Simulator::findIssueDelay(const StreamState &stream) const {
  const Issued &front = stream.front();
  double begin = front.function >= waitsBefore ? waitEnds : 0;
  return std::max(begin + front.issued - now, 0.0);
}

bool Simulator::advance(StreamState &stream) {
  bool moved = false;
  while (!stream.isDone() && !stream.isWorking) {
    const Issued &front = stream.front();
    const Instruction &instruction = *front.instruction;
    if (instruction.kind == Instruction::wait && !recorded[front.record])
      return moved;
    if (findIssueDelay(stream) > 0)
      return moved;
    if (instruction.kind == Instruction::work) {
      stream.isWorking = true;
      stream.begin = now;
      stream.latency = instruction.cost.latency;
      stream.seconds = instruction.cost.seconds;
      if (stream.latency <= 0)
        ++users[static_cast<unsigned>(instruction.cost.resource)];
      return true;
    }
    if (instruction.kind == Instruction::record)
      recorded[front.record] = true;
    leave(stream);
    moved = true;
  }
  return moved;
}

void Simulator::finish(StreamState &stream) {
  const Issued &front = stream.front();
  const Instruction &instruction = *front.instruction;
  --users[static_cast<unsigned>(instruction.cost.resource)];
  FunctionTimes &times = result.functions[front.function];
  unsigned activity = static_cast<unsigned>(instruction.activity);
  times.busy[activity] += now - stream.begin;
  if (instruction.stream == kComputeStream)
    times.onCompute[activity] += now - stream.begin;
  if (trace)
    trace->push_back({front.function,
                      uint32_t(&instruction - firstOf[front.function]),
                      stream.begin, now});
  stream.isWorking = false;
  leave(stream);
}

void Simulator::leave(StreamState &stream) {
  if (&stream == &streams[kComputeStream])
    result.functions[stream.front().function].end = now;
  ++stream.next;
  endHostWait();
}

void Simulator::endHostWait() {
  const StreamState &compute = streams[kComputeStream];
  if (std::isinf(waitEnds) &&
      (compute.isDone() || compute.front().function >= waitsBefore))
    waitEnds = now;
}

/// Gives each user of a resource an equal share of it, and gives compute the
/// processors of the device that others do not occupy. Scales the demands for
/// memory bandwidth by these shares. If the demands exceed a memory's
/// bandwidth, all users of that memory slow down by the same factor.
void Simulator::findSlowdowns() {
  double device = 0, host = 0, held = 0;
  auto forEachWork = [&](auto visit) {
    for (unsigned i = 0; i < kNumSimulatedStreams; ++i)
      if (streams[i].isWorking && streams[i].latency <= 0)
        visit(slowdowns[i], streams[i].front().instruction->cost);
  };
  forEachWork([&](double &, const Cost &cost) {
    held = std::max(held, cost.processors);
  });
  forEachWork([&](double &slowdown, const Cost &cost) {
    slowdown = users[static_cast<unsigned>(cost.resource)];
    if (cost.resource == Resource::compute)
      slowdown /= 1 - held;
    bool isInMemory = cost.deviceMemory > 0 || cost.hostMemory > 0;
    if (cost.seconds <= 0 || !isInMemory)
      return;
    device += cost.deviceMemory / cost.seconds / slowdown;
    host += cost.hostMemory / cost.seconds / slowdown;
  });
  forEachWork([&](double &slowdown, const Cost &cost) {
    double most = 1;
    if (cost.deviceMemory > 0)
      most = std::max(most, device);
    if (cost.hostMemory > 0)
      most = std::max(most, host);
    slowdown *= most;
  });
}

/// Returns the seconds until the next latency or work ends or the next
/// instruction of a stream is issued, or infinity if nothing runs.
double Simulator::findNextEvent() const {
  double next = std::numeric_limits<double>::infinity();
  for (unsigned i = 0; i < kNumSimulatedStreams; ++i) {
    const StreamState &stream = streams[i];
    if (stream.isWorking)
      next = std::min(next, stream.latency > 0 ? stream.latency
                                               : stream.seconds * slowdowns[i]);
    else if (!stream.isDone())
      if (double delay = findIssueDelay(stream); delay > 0)
        next = std::min(next, delay);
  }
  return next;
}

/// Follows the chain of waits from `waiting` to the work that runs now. Returns
/// nullopt if nothing runs there.
std::optional<Activity>
Simulator::findWhatHolds(const StreamState &waiting) const {
  const StreamState *stream = &waiting;
  for (unsigned i = 0; i <= kNumSimulatedStreams; ++i) {
    if (stream->isDone())
      return std::nullopt;
    const Issued &front = stream->front();
    if (stream->isWorking)
      return front.instruction->activity;
    if (findIssueDelay(*stream) > 0)
      return Activity::hostIssue;
    stream = &streams[streamOf[front.record]];
  }
  return std::nullopt;
}

void Simulator::pass(double seconds) {
  const StreamState &compute = streams[kComputeStream];
  if (!compute.isDone() && !compute.isWorking)
    if (std::optional<Activity> cause = findWhatHolds(compute))
      result.functions[compute.front().function]
          .exposed[static_cast<unsigned>(*cause)] += seconds;
  now += seconds;
  for (unsigned i = 0; i < kNumSimulatedStreams; ++i) {
    StreamState &stream = streams[i];
    if (!stream.isWorking)
      continue;
    if (stream.latency > 0) {
      stream.latency = stream.latency <= seconds ? 0 : stream.latency - seconds;
      if (stream.latency == 0)
        ++users[static_cast<unsigned>(
            stream.front().instruction->cost.resource)];
      continue;
    }
    stream.seconds -= seconds / slowdowns[i];
  }
}

SimulatedRun Simulator::take() {
  endHostWait(); // there may be nothing that it waits for
  for (;;) {
    for (bool moved = true; moved;) {
      moved = false;
      for (StreamState &stream : streams)
        moved |= advance(stream);
    }
    findSlowdowns();
    double next = findNextEvent();
    if (next == std::numeric_limits<double>::infinity())
      break;
    std::array<bool, kNumSimulatedStreams> ends{};
    for (unsigned i = 0; i < kNumSimulatedStreams; ++i)
      ends[i] = streams[i].isWorking && streams[i].latency <= 0 &&
                streams[i].seconds * slowdowns[i] <= next;
    pass(next);
    for (unsigned i = 0; i < kNumSimulatedStreams; ++i)
      if (ends[i]) {
        finish(streams[i]);
      }
  }
  // Each wait is for an earlier record, so no stream is blocked forever.
  result.seconds = now;
  // A function without compute ends when the one before it ends.
  for (size_t i = 1; i < result.functions.size(); ++i)
    result.functions[i].end =
        std::max(result.functions[i].end, result.functions[i - 1].end);
  return std::move(result);
}

SimulatedRun fcdp::simulate(llvm::ArrayRef<const InstructionList *> run,
                            std::vector<TimedWork> *trace,
                            std::optional<size_t> hostWaitsBefore) {
  return Simulator(run, trace, hostWaitsBefore).take();
}
