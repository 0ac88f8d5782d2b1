// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cuda/StreamTable.h"
#include "streams/StepRecorder.h"

#include <array>
#include <vector>

namespace fcdp {

/// Measures the device's time with events. It is synchronized with the host's
/// clock at the beginning of each step, up to the latency of an event on an
/// idle stream. After that, the resolution is CUDA's, half a microsecond.
/// Events are created when marks need them and then reused. Only the issuer may
/// use it.
class EventClock final : public StreamClock {
public:
  /// `streams` must outlive the clock and belong to device number `device`.
  EventClock(std::shared_ptr<const CudaLibrary> cuda, int device,
             const StreamTable &streams);
  /// All enqueued work must have ended.
  ~EventClock() override;
  EventClock(const EventClock &) = delete;
  EventClock &operator=(const EventClock &) = delete;

  void begin() override;
  void mark(StreamId stream) override;
  std::vector<double> read(StreamId stream) const override;

private:
  cudaEvent_t record(StreamId stream);

  const std::shared_ptr<const CudaLibrary> cuda;
  const int device;
  const StreamTable &streams;
  std::vector<cudaEvent_t> events;
  /// Number of events used in this step.
  size_t numUsed = 0;
  cudaEvent_t origin = nullptr;
  double originSeconds = 0; ///< on the scale of readClock
  std::array<std::vector<cudaEvent_t>, kNumStreams> marks;
};

} // namespace fcdp
