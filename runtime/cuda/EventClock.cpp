// SPDX-License-Identifier: Apache-2.0

#include "cuda/EventClock.h"

namespace fcdp {

EventClock::EventClock(std::shared_ptr<const CudaLibrary> cuda, int device,
                       const StreamTable &streams)
    : cuda(std::move(cuda)), device(device), streams(streams) {}

EventClock::~EventClock() {
  for (cudaEvent_t event : events)
    (void)cuda->cudaEventDestroy(event);
}

cudaEvent_t EventClock::record(StreamId stream) {
  cuda->check(cuda->cudaSetDevice(device), "cudaSetDevice");
  if (numUsed == events.size()) {
    cudaEvent_t made = nullptr;
    cuda->check(cuda->cudaEventCreateWithFlags(&made, cudaEventDefault),
                "cudaEventCreateWithFlags");
    events.push_back(made);
  }
  cudaEvent_t event = events[numUsed++];
  cuda->check(cuda->cudaEventRecord(event, streams.at(stream)),
              "cudaEventRecord");
  return event;
}

void EventClock::begin() {
  for (auto &list : marks)
    list.clear();
  numUsed = 0;
  origin = record(StreamId::Compute);
  // No stream has work, so the event is reached at once.
  while (!cuda->isReady(cuda->cudaEventQuery(origin), "cudaEventQuery"))
    ;
  originSeconds = readClock();
}

void EventClock::mark(StreamId stream) {
  marks[size_t(stream)].push_back(record(stream));
}

std::vector<double> EventClock::read(StreamId stream) const {
  std::vector<double> times;
  for (cudaEvent_t event : marks[size_t(stream)]) {
    float milliseconds = 0;
    cuda->check(cuda->cudaEventElapsedTime(&milliseconds, origin, event),
                "cudaEventElapsedTime");
    times.push_back(originSeconds + milliseconds / 1e3);
  }
  return times;
}

} // namespace fcdp
