// SPDX-License-Identifier: Apache-2.0

#include "streams/StreamSet.h"

#include <stdexcept>

namespace fcdp {

namespace {

/// Adds the time for which it lives to a sum.
class Stopwatch {
  using Clock = std::chrono::steady_clock;

public:
  explicit Stopwatch(Clock::duration &total) : total(total) {}
  ~Stopwatch() { total += Clock::now() - start; }

private:
  Clock::duration &total;
  const Clock::time_point start = Clock::now();
};

} // namespace

StreamSet::StreamSet(CommandExecutor &run, uint32_t numEvents,
                     uint32_t queueCapacity)
    : interrupter(*this, run), events(numEvents) {
  for (size_t stream = 0; stream < kNumStreams; ++stream)
    if (StreamId(stream) != StreamId::Compute)
      workers[stream] = std::make_unique<StreamWorker>(
          StreamId(stream), queueCapacity, interrupter, firstFailure);
}

StreamSet::~StreamSet() {
  // A queued wait refers to another worker, so all must be idle before the
  // first one is destroyed.
  synchronize();
}

void StreamSet::issue(StreamId stream, const Command &command) {
  if (failed())
    return;
  if (StreamWorker *worker = workerOf(stream))
    return worker->enqueue(command);
  try {
    interrupter.execute(stream, command);
  } catch (const std::exception &error) {
    fail(error.what(), kindOf(error));
  }
}

void StreamSet::record(uint32_t event, StreamId stream) {
  StreamWorker *worker = workerOf(stream);
  eventAt(event) = {worker, worker ? worker->lastIssued() : 0};
}

void StreamSet::wait(uint32_t event, StreamId stream) {
  const Event &target = eventAt(event);
  StreamWorker *worker = workerOf(stream);
  if (failed() || !target.stream || target.stream == worker ||
      target.stream->isDone(target.sequence))
    return;
  if (!worker) {
    Stopwatch stopwatch(waited);
    return target.stream->waitFor(target.sequence);
  }
  Command command;
  command.kind = Command::Kind::Wait;
  command.wait = {target.stream, target.sequence};
  worker->enqueue(command);
}

void StreamSet::synchronize() {
  Stopwatch stopwatch(waited);
  for (auto &worker : workers)
    if (worker)
      worker->drain(worker->lastIssued());
}

bool StreamSet::idle() const {
  for (const auto &worker : workers)
    if (worker && !worker->isDone(worker->lastIssued()))
      return false;
  return true;
}

void StreamSet::fail(std::string message, FailureKind kind) {
  if (firstFailure.set(std::move(message), kind))
    interrupter.interrupt();
}

StreamSet::Event &StreamSet::eventAt(uint32_t event) {
  if (event >= events.size())
    throw std::runtime_error("event " + std::to_string(event) +
                             " does not exist: there are " +
                             std::to_string(events.size()));
  return events[event];
}

StreamWorker *StreamSet::workerOf(StreamId stream) {
  if (size_t(stream) >= kNumStreams)
    throw std::runtime_error("stream " + std::to_string(int(stream)) +
                             " does not exist");
  return workers[size_t(stream)].get();
}

void StreamSet::Interrupter::interrupt() noexcept {
  for (auto &worker : set.workers)
    if (worker)
      worker->wakeAll();
  run.interrupt();
}

} // namespace fcdp
