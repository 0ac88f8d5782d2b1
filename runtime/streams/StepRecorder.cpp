// SPDX-License-Identifier: Apache-2.0

#include "streams/StepRecorder.h"

#include <chrono>

namespace fcdp {

double readClock() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void StepRecorder::beginStep() {
  functions.clear();
  for (auto &list : issues)
    list.clear();
  for (auto &list : spans)
    list.clear();
  if (clock)
    clock->begin();
  begin = readClock();
}

void StepRecorder::beginSpan(StreamId stream) {
  if (paused)
    return;
  if (clock)
    clock->mark(stream);
  else if (stream == StreamId::Compute)
    spanBegin = readClock();
}

void StepRecorder::endSpan(StreamId stream) {
  if (paused)
    return;
  if (clock)
    clock->mark(stream);
  else if (stream == StreamId::Compute)
    add(stream, {spanBegin, readClock()});
}

void StepRecorder::endStep() {
  if (!clock)
    return;
  for (size_t stream = 0; stream < kNumStreams; ++stream) {
    std::vector<double> times = clock->read(StreamId(stream));
    for (size_t i = 0; i + 1 < times.size(); i += 2)
      add(StreamId(stream), {times[i], times[i + 1]});
  }
}

void StepRecorder::beginFunction(const std::string &name) {
  if (!paused)
    functions.push_back(name);
}

void RecordingExecutor::execute(StreamId stream, const Command &command) {
  // The issuer records work on the compute stream itself.
  if (stream == StreamId::Compute)
    return run.execute(stream, command);
  double begin = readClock();
  run.execute(stream, command);
  recorder.add(stream, {begin, readClock()});
}

} // namespace fcdp
