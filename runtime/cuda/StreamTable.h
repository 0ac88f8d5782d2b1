// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/Backend.h"
#include "cuda/CudaLibrary.h"

#include <array>
#include <vector>

namespace fcdp {

/// The CUDA streams and events of a rank, all made at once, on the device that
/// is current. Communication has the greatest priority: its kernels are small,
/// and others wait for them. Functions throw std::runtime_error. Of one thread,
/// the issuer.
class StreamTable {
public:
  StreamTable(std::shared_ptr<const CudaLibrary> cuda, uint32_t numEvents);
  /// What is enqueued must have ended.
  ~StreamTable();
  StreamTable(const StreamTable &) = delete;
  StreamTable &operator=(const StreamTable &) = delete;

  cudaStream_t at(StreamId stream) const;
  void record(uint32_t event, StreamId stream);
  /// Enqueues nothing for an event that was never recorded, or was on this
  /// same stream.
  void wait(uint32_t event, StreamId stream);
  /// Throws if there is no such event.
  void requireEvent(uint32_t event) const;
  /// True if the work that the event marked has run, or it was never recorded.
  bool isReached(uint32_t event) const;
  /// True if nothing enqueued on the stream is left to run.
  bool isIdle(StreamId stream) const;

private:
  struct Event {
    cudaEvent_t handle = nullptr;
    bool isRecorded = false;
    StreamId stream{};
  };

  void destroy();

  std::shared_ptr<const CudaLibrary> cuda;
  std::array<cudaStream_t, kNumStreams> streams{};
  std::vector<Event> events;
};

} // namespace fcdp
