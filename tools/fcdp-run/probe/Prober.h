// SPDX-License-Identifier: Apache-2.0
//
// What a probe does in one way on CPUs and in another on GPUs.
#pragma once

#include "collectives/Job.h"
#include "core/Backend.h"
#include "probe/DeviceTimer.h"
#include "probe/ProbeOptions.h"
#include "probe/ProbedCluster.h"

#include <initializer_list>
#include <memory>

namespace fcdp::run {

/// The bytes of host memory of a rank, and the least of its device, between
/// which copies are measured. They exceed caches.
inline constexpr size_t kProbeWindow = 32 << 20;
/// The least bytes of a transfer that is measured.
inline constexpr size_t kLeastTransfer = 1 << 10;

/// The sizes and counts of transfers.
struct TransferLimits {
  /// The most bytes of a copy.
  size_t mostCopied;
  /// No larger size is tried of a transfer that takes longer.
  double longSeconds;
  /// The most transfers between two readings of the clock.
  int mostInRow;
  /// Whether device and host have memories of their own.
  bool hasTwoMemories;
};

/// The device of a rank that is measured. Used by one thread. All ranks call
/// the same functions in the same order.
class Prober {
public:
  virtual ~Prober();

  Backend &device() { return *backend; }
  /// Waits until no stream has work. Throws TransportError if one has failed.
  void finish();
  /// Returns the mean of what ranks have measured.
  double mean(double own);

  virtual TransferLimits limits() const = 0;
  /// Returns the most bytes that a rank gives to a gather of so many ranks.
  virtual size_t mostPart(uint32_t ranks) const = 0;
  /// Returns the seconds of `work`, which is on these streams alone.
  virtual double time(std::initializer_list<StreamId> streams,
                      const Work &work) = 0;
  /// Sets the memory of devices and hosts. `available` are the bytes that a
  /// machine has left for each of its ranks.
  virtual void divideMemory(double available, ProbedCluster &found) = 0;
  virtual void measureComputing(ProbedCluster &found) = 0;
  /// Replaces the groups of each axis by those of all ranks. Returns false if
  /// their collectives are not measured.
  virtual bool joinWorld() { return false; }
  /// Called last, because clocks stay low for some time.
  virtual void measureUnderLoad(ProbedCluster &) {}
  /// Called before and after the links between ranks are measured.
  virtual void beginLinks() {}
  virtual void endLinks(ProbedCluster &) {}

protected:
  explicit Prober(Job &job) : job(job) {}

  Job &job;
  std::unique_ptr<Backend> backend;
};

/// Measures a share of a CPU, and transfers by Gloo.
std::unique_ptr<Prober> makeCpuProber(Job &job);
/// Measures a GPU, and transfers by NCCL. Adds what a GPU says of itself.
/// Throws std::runtime_error.
std::unique_ptr<Prober> makeGpuProber(const ProbeOptions &options, Job &job,
                                      ProbedCluster &found);

} // namespace fcdp::run
