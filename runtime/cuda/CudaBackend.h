// SPDX-License-Identifier: Apache-2.0
//
// The CUDA backend: streams and events are CUDA's, and collectives run on
// device groups. The issuer enqueues all work and never waits.
#pragma once

#include "core/Backend.h"
#include "cuda/DeviceArena.h"
#include "cuda/DeviceGroup.h"
#include "cuda/HostCache.h"
#include "streams/GraphCapture.h"
#include "streams/StepRecorder.h"
#include "transports/Transport.h"

#include <array>

namespace fcdp {

struct CudaBackendOptions {
  std::shared_ptr<const CudaLibrary> cuda;
  /// The device's number in this process.
  int device = 0;
  uint64_t deviceBytes = 0;
  /// The source of the device arena's memory; cudaMalloc if it is empty.
  DeviceMemorySource memory = {};
  uint32_t numEvents = 0;
  CudaHostCache host;
  /// Groups by `AxisId`. A collective over a null group is an error.
  std::array<AxisDeviceGroups, kNumAxes> axes;
  /// By `AxisId`, the messages that the groups will send. The groups are
  /// connected for them in advance.
  std::array<WarmUp, kNumAxes> messages;
  /// Whether the groups' library adds gradients, if a reduction's input and
  /// output have one type. The bits then differ from those of other backends.
  bool reducesByLibrary = false;
  /// A group of all ranks in the order of their shards, for `sumOverRanks`,
  /// which is an error if it is null. Its bytes count as control traffic.
  std::unique_ptr<DeviceGroup> all;
  /// This rank's number, for messages.
  uint32_t worldRank = 0;
  /// Number of ranks per node, for collectives over the world.
  uint32_t ranksPerNode = 1;
  /// Transport over all ranks; null for a job of one rank. It must outlive the
  /// backend.
  Transport *control = nullptr;
  /// Time in seconds after which a collective that has begun and not ended
  /// fails.
  double collectiveSeconds = 300;
  /// Time in seconds after a failure after which calls that wait for the device
  /// are ended.
  double noticeSeconds = 5;
  /// Optional; called on a thread of the backend.
  OnBlocked onBlocked = {};
  /// Makes the recorder measure with the device's clock. Optional; it must
  /// outlive the backend.
  StepRecorder *recorder = nullptr;
};

/// The CUDA backend. Unlike on the CPU backend, work on the compute stream is
/// enqueued, and `wait` on it does not block. A collective that fails leaves
/// its stream waiting, so that nothing after it runs; `synchronize` then
/// returns.
class CudaBackend : public Backend {
public:
  /// Returns a stream for the work of other libraries, such as ATen's
  /// operators.
  virtual cudaStream_t stream(StreamId stream) = 0;
  /// Returns the device's memory in use, without waiting for work. Throws
  /// Failure.
  virtual CudaLibrary::Memory memory() = 0;
  /// Returns how the device arena is registered with each group.
  virtual const std::vector<Registration> &registrations() const = 0;
  /// Makes a clock of the streams. It must not outlive the backend.
  virtual std::unique_ptr<StreamClock> makeClock() = 0;
  /// Makes a capture of the compute stream. It must not outlive the backend.
  virtual std::unique_ptr<GraphCapture> makeCapture() = 0;
};

/// Makes a CUDA backend. Throws std::runtime_error if the device is not
/// available or has too little memory. The destructor aborts the groups if
/// anything still runs or has failed, then waits for the streams.
std::unique_ptr<CudaBackend> makeCudaBackend(CudaBackendOptions options);

} // namespace fcdp
