// SPDX-License-Identifier: Apache-2.0

#include "core/StepRecorder.h"

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
  begin = readClock();
}

void StepRecorder::beginFunction(const std::string &name) {
  functions.push_back(name);
}

void RecordingExecutor::execute(StreamId stream, const Command &command) {
  // What is on the compute stream is recorded by who issues it.
  if (stream == StreamId::Compute)
    return run.execute(stream, command);
  double begin = readClock();
  run.execute(stream, command);
  recorder.add(stream, {begin, readClock()});
}

} // namespace fcdp
