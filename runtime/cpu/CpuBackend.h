// SPDX-License-Identifier: Apache-2.0
//
// The CPU backend: streams are host threads, and device memory is an arena.
#pragma once

#include "core/Backend.h"
#include "cpu/HostSegment.h"
#include "streams/StepRecorder.h"
#include "transports/Transport.h"

#include <memory>

namespace fcdp {

struct CpuBackendOptions {
  uint64_t deviceBytes = 0;
  uint32_t numEvents = 0;
  HostSegment host;
  /// The transports of each axis; they must outlive the backend. A collective
  /// over a null transport is an error.
  AxisTransports node, local, world;
  /// Number of ranks per node, for collectives over the world.
  uint32_t ranksPerNode = 1;
  /// Transport over all ranks; null for a job of one rank.
  Transport *control = nullptr;
  /// Whether the streams between nodes can code messages.
  bool codesMessages = false;
  /// The number of commands that a stream queues before the issuer blocks.
  uint32_t queueCapacity = 1024;
  /// Records the work of streams other than compute. Optional; it must outlive
  /// the backend.
  StepRecorder *recorder = nullptr;
};

/// Makes a CPU backend. Throws std::runtime_error if the device memory is not
/// available. For thread-safety, see `Backend`. The destructor aborts work that
/// still runs in the transports, then joins the streams.
std::unique_ptr<Backend> makeCpuBackend(CpuBackendOptions options);

} // namespace fcdp
