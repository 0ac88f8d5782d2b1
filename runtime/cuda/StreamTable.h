// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/Backend.h"
#include "cuda/CudaLibrary.h"

#include <array>
#include <vector>

namespace fcdp {

/// The CUDA streams and events of a rank, created on the current device.
/// Streams of communication have the highest priority, because their kernels
/// are small and other work waits for them. Functions throw std::runtime_error.
/// Only the issuer may use it.
class StreamTable {
public:
  StreamTable(std::shared_ptr<const CudaLibrary> cuda, uint32_t numEvents);
  /// All enqueued work must have ended.
  ~StreamTable();
  StreamTable(const StreamTable &) = delete;
  StreamTable &operator=(const StreamTable &) = delete;

  cudaStream_t at(StreamId stream) const;
  void record(uint32_t event, StreamId stream);
  /// Enqueues a wait, unless the event was never recorded or was recorded on
  /// this stream.
  void wait(uint32_t event, StreamId stream);
  /// Throws if there is no such event.
  void requireEvent(uint32_t event) const;
  /// Returns whether the work that the event marked has run. Also true if the
  /// event was never recorded.
  bool isReached(uint32_t event) const;
  /// Returns whether all work enqueued on the stream has run.
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
