// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/StepRecorder.h"
#include "cuda/StreamTable.h"

#include <array>
#include <vector>

namespace fcdp {

/// The device's clock, read by events. It is set to the host's when a step
/// begins, to as much as an event takes on an idle stream; from there on CUDA
/// tells half a microsecond apart. Events are made as marks need them and kept.
/// Used by the issuer.
class EventClock final : public StreamClock {
public:
  /// `streams` must outlive it, and be those of the device of that number.
  EventClock(std::shared_ptr<const CudaLibrary> cuda, int device,
             const StreamTable &streams);
  /// What is enqueued must have ended.
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
  /// Events that have a place in this step.
  size_t numUsed = 0;
  cudaEvent_t origin = nullptr;
  double originSeconds = 0; ///< of readClock
  std::array<std::vector<cudaEvent_t>, kNumStreams> marks;
};

} // namespace fcdp
