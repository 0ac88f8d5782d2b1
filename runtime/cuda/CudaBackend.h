// SPDX-License-Identifier: Apache-2.0
//
// The CUDA backend: streams and events are CUDA's, collectives those of device
// groups. The issuer enqueues everything and waits for nothing.
#pragma once

#include "collectives/Transport.h"
#include "core/Backend.h"
#include "core/GraphCapture.h"
#include "core/StepRecorder.h"
#include "cuda/DeviceGroup.h"
#include "cuda/HostCache.h"

#include <array>

namespace fcdp {

struct CudaBackendOptions {
  std::shared_ptr<const CudaLibrary> cuda;
  /// The number of the device, as this process sees it.
  int device = 0;
  uint64_t deviceBytes = 0;
  uint32_t numEvents = 0;
  HostCache host;
  /// The groups by `Axis`. A collective over one that is null is refused.
  std::array<AxisDeviceGroups, kNumAxes> axes;
  /// All ranks, in the order of their shards, for `sumOverRanks`, which is
  /// refused if it is null. Its bytes are control traffic.
  std::unique_ptr<DeviceGroup> all;
  /// This rank, for messages.
  uint32_t worldRank = 0;
  /// For collectives over the world: which of its ranks share this one's node.
  uint32_t ranksPerNode = 1;
  /// All ranks; null for a job of one. Must outlive the backend.
  Transport *control = nullptr;
  /// A collective that has begun and does not end fails after this time.
  double collectiveSeconds = 300;
  /// Measures by the device's clock from then on; null: nobody does. It must
  /// outlive the backend.
  StepRecorder *recorder = nullptr;
};

/// Unlike on the CPU backend, work on the compute stream is enqueued, and
/// `wait` on it does not block. A gather or reduction that fails leaves its
/// stream waiting, so that nothing after it runs; `synchronize` then returns.
class CudaBackend : public Backend {
public:
  /// For work of others, such as ATen's, that the plan puts on that stream.
  virtual cudaStream_t stream(StreamId stream) = 0;
  /// Of what is put on the compute stream; must not outlive the backend.
  virtual std::unique_ptr<GraphCapture> makeCapture() = 0;
};

/// Throws std::runtime_error if the device cannot be had or its memory does
/// not suffice. Its destructor aborts the groups if anything is still running
/// or has failed, then waits for the streams.
std::unique_ptr<CudaBackend> makeCudaBackend(CudaBackendOptions options);

} // namespace fcdp
