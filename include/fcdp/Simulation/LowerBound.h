// SPDX-License-Identifier: Apache-2.0
//
// Lower bounds on the time of a step that no order of its operations beats.
// This code does not depend on the IR.
#pragma once

#include "fcdp/Cluster/Cost.h"
#include "llvm/ADT/ArrayRef.h"

#include <array>
#include <cstdint>
#include <vector>

namespace fcdp {

/// A job for one machine, in seconds.
struct MachineJob {
  /// The earliest time at which it can begin.
  double head = 0;
  /// Time for which it occupies the machine.
  double seconds = 0;
  /// Time that must pass after it.
  double tail = 0;
};

/// Returns the least time until all jobs and their tails are done if jobs may
/// be interrupted. Always running the job with the greatest tail is optimal
/// then (Jackson's preemptive schedule; Carlier, "The one-machine sequencing
/// problem", 1982). Without interruption it takes at least as long. O(n log n).
double boundOneMachine(llvm::ArrayRef<MachineJob> jobs);

/// Jobs with their predecessors. Jobs are added in a topological order.
class DependenceGraph {
public:
  /// Adds a job and returns its index. `predecessors` are indices that were
  /// returned before. Compute jobs that are not `onComputeStream` may run
  /// during the latency of those that are.
  uint32_t add(const Cost &cost, llvm::ArrayRef<uint32_t> predecessors,
               bool onComputeStream = true);
  uint32_t getSize() const { return costs.size(); }

  /// Returns for each resource a lower bound on the time of any order in which
  /// the resource does one job at a time and every job follows its
  /// predecessors. The time includes fill and drain: a resource cannot begin
  /// before its first job can. The latencies of jobs on the compute stream do
  /// not overlap either. The bound of compute is at least the time of the one
  /// thread that issues all jobs.
  std::array<double, kNumResources> bound() const;

private:
  double boundHost() const;
  double boundComputeStream(llvm::ArrayRef<double> heads,
                            llvm::ArrayRef<double> tails) const;

  std::vector<Cost> costs;
  std::vector<bool> isOnComputeStream;
  /// Predecessors of node i are at [begins[i], begins[i + 1]).
  std::vector<uint32_t> predecessors, begins{0};
};

} // namespace fcdp
