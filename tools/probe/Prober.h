// SPDX-License-Identifier: Apache-2.0
//
// The parts of a probe that differ between CPUs and GPUs.
#pragma once

#include "core/Backend.h"
#include "job/Job.h"
#include "probe/DeviceTimer.h"
#include "probe/ProbeOptions.h"
#include "probe/ProbedCluster.h"
#include "probe/Steady.h"

#include <initializer_list>
#include <memory>

namespace fcdp::probe {

/// The bytes of a rank's host memory, and the least of its device memory,
/// between which copies are measured. They exceed caches.
inline constexpr size_t kProbeWindow = 32 << 20;
/// The least bytes of a measured transfer.
inline constexpr size_t kLeastTransfer = 1 << 10;

/// The sizes and counts of transfers.
struct TransferLimits {
  /// The most bytes of a copy.
  size_t mostCopied;
  /// After a transfer that takes longer than this, no larger size is tried.
  double longSeconds;
  /// The ratio of a size to the one before it.
  size_t growth;
  /// The most transfers between two readings of the clock.
  int mostInRow;
  /// Whether device and host have separate memories.
  bool hasTwoMemories;
  /// The fewest samples of a transfer after one that does not count.
  size_t leastSamples = kLeastSamples;
};

class LinkProbe;

/// A device of a rank that is measured. Used by one thread. All ranks call the
/// same functions in the same order.
class Prober {
public:
  virtual ~Prober();

  Backend &device() { return *backend; }
  /// Waits until no stream has work. Throws TransportError if one has failed.
  void finish();
  /// Returns the mean of the ranks' measurements.
  double mean(double own);

  virtual TransferLimits limits() const = 0;
  /// Returns the most bytes that a rank contributes to a gather of `ranks`
  /// ranks.
  virtual size_t mostPart(uint32_t ranks) const = 0;
  /// Returns the seconds of `work`, which runs only on these streams.
  virtual double time(std::initializer_list<StreamId> streams,
                      const Work &work) = 0;
  /// Sets the memory of devices and hosts. `available` is the number of bytes
  /// that a machine has left for each of its ranks.
  virtual void divideMemory(double available, ProbedCluster &found) = 0;
  virtual void measureComputing(ProbedCluster &found) = 0;
  /// Replaces the groups of each axis by groups of all ranks. Returns false if
  /// their collectives are not measured.
  virtual bool joinWorld() { return false; }
  /// Measures the device under sustained load and, on CPUs, beside transfers
  /// over the links that were found. Called last, because clocks stay low for
  /// some time.
  virtual void measureUnderLoad(LinkProbe &, ProbedCluster &) {}
  /// Called before and after the measurement of links between ranks.
  virtual void beginLinks() {}
  virtual void endLinks(ProbedCluster &) {}

protected:
  explicit Prober(Job &job) : job(job) {}

  Job &job;
  std::unique_ptr<Backend> backend;
};

/// Makes a prober that measures a share of a CPU, and transfers by Gloo.
std::unique_ptr<Prober> makeCpuProber(Job &job);
/// Makes a prober that measures a GPU, and transfers by NCCL. Adds the facts
/// that a GPU reports about itself. Throws std::runtime_error.
std::unique_ptr<Prober> makeGpuProber(const ProbeOptions &options, Job &job,
                                      ProbedCluster &found);

} // namespace fcdp::probe
