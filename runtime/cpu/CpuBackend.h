// SPDX-License-Identifier: Apache-2.0
//
// The CPU backend: streams are host threads, device memory is an arena.
#pragma once

#include "collectives/Transport.h"
#include "core/Backend.h"
#include "core/StepRecorder.h"
#include "cpu/HostSegment.h"

#include <memory>

namespace fcdp {

struct CpuBackendOptions {
  uint64_t deviceBytes = 0;
  uint32_t numEvents = 0;
  HostSegment host;
  /// The transports of each axis; they must outlive the backend. A collective
  /// over one that is null is refused.
  AxisTransports node, local, world;
  /// For collectives over the world: which of its ranks share this one's node.
  uint32_t ranksPerNode = 1;
  /// All ranks; null for a job of one.
  Transport *control = nullptr;
  /// Commands a stream holds before the issuer is held back.
  uint32_t queueCapacity = 1024;
  /// Is told what streams other than compute do; null: nobody is. It must
  /// outlive the backend.
  StepRecorder *recorder = nullptr;
};

/// Throws std::runtime_error if the device memory cannot be had. The backend
/// follows the thread-safety rules of `Backend`. Its destructor aborts what is
/// still running in the transports, then joins the streams.
std::unique_ptr<Backend> makeCpuBackend(CpuBackendOptions options);

} // namespace fcdp
