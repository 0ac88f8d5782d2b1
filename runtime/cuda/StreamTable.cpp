// SPDX-License-Identifier: Apache-2.0

#include "cuda/StreamTable.h"

#include <stdexcept>

namespace fcdp {

StreamTable::StreamTable(std::shared_ptr<const CudaLibrary> givenCuda,
                         uint32_t numEvents)
    : cuda(std::move(givenCuda)), events(numEvents) {
  try {
    int least = 0, greatest = 0;
    cuda->check(cuda->cudaDeviceGetStreamPriorityRange(&least, &greatest),
                "cudaDeviceGetStreamPriorityRange");
    for (size_t i = 0; i < kNumStreams; ++i)
      cuda->check(cuda->cudaStreamCreateWithPriority(
                      &streams[i], cudaStreamNonBlocking,
                      StreamId(i) == StreamId::Compute ? least : greatest),
                  "cudaStreamCreateWithPriority");
    for (Event &event : events)
      cuda->check(
          cuda->cudaEventCreateWithFlags(&event.handle, cudaEventDisableTiming),
          "cudaEventCreateWithFlags");
  } catch (...) {
    destroy();
    throw;
  }
}

StreamTable::~StreamTable() { destroy(); }

void StreamTable::destroy() {
  for (Event &event : events)
    if (event.handle)
      (void)cuda->cudaEventDestroy(event.handle);
  for (cudaStream_t stream : streams)
    if (stream)
      (void)cuda->cudaStreamDestroy(stream);
}

cudaStream_t StreamTable::at(StreamId stream) const {
  if (size_t(stream) >= kNumStreams)
    throw std::runtime_error("stream " + std::to_string(int(stream)) +
                             " does not exist");
  return streams[size_t(stream)];
}

void StreamTable::requireEvent(uint32_t event) const {
  if (event >= events.size())
    throw std::runtime_error("event " + std::to_string(event) +
                             " does not exist: there are " +
                             std::to_string(events.size()));
}

void StreamTable::record(uint32_t event, StreamId stream) {
  Event &target = events[event];
  cuda->check(cuda->cudaEventRecord(target.handle, at(stream)),
              "cudaEventRecord");
  target.isRecorded = true;
  target.stream = stream;
}

void StreamTable::wait(uint32_t event, StreamId stream) {
  const Event &target = events[event];
  if (target.isRecorded && target.stream != stream)
    cuda->check(cuda->cudaStreamWaitEvent(at(stream), target.handle, 0),
                "cudaStreamWaitEvent");
}

bool StreamTable::isReached(uint32_t event) const {
  const Event &target = events[event];
  if (!target.isRecorded)
    return true;
  return cuda->isReady(cuda->cudaEventQuery(target.handle), "cudaEventQuery");
}

bool StreamTable::isIdle(StreamId stream) const {
  return cuda->isReady(cuda->cudaStreamQuery(at(stream)), "cudaStreamQuery");
}

} // namespace fcdp
