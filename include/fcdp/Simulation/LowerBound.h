// SPDX-License-Identifier: Apache-2.0
//
// What no order of a step's operations can beat. Knows no IR.
#pragma once

#include "fcdp/Cluster/Cost.h"
#include "llvm/ADT/ArrayRef.h"

#include <array>
#include <cstdint>
#include <vector>

namespace fcdp {

/// A piece of work that one machine does, in seconds.
struct MachineJob {
  /// When it can begin at the earliest.
  double head = 0;
  /// Of the machine.
  double seconds = 0;
  /// What has to follow it.
  double tail = 0;
};

/// The least time until all jobs and their tails are done, if jobs may be
/// interrupted: with the greatest tail first (Jackson's preemptive schedule;
/// Carlier, "The one-machine sequencing problem", 1982). Without interruption
/// it takes no less.
double boundOneMachine(llvm::ArrayRef<MachineJob> jobs);

/// Work and what each piece of it needs to be done before, in an order in which
/// that is possible.
class DependenceGraph {
public:
  /// `predecessors` are indices that were returned before; returns the new one.
  uint32_t add(const Cost &cost, llvm::ArrayRef<uint32_t> predecessors);
  uint32_t getSize() const { return costs.size(); }

  /// For each resource, the least time of any order in which it does one piece
  /// of work after the other and in which what is needed is done before. Fill
  /// and drain are in it: a resource cannot begin before its first piece of
  /// work can. Operations of compute hold it for their latency too, for they
  /// share one stream.
  std::array<double, kNumResources> bound() const;

private:
  std::vector<Cost> costs;
  /// Of node i: from begins[i] to begins[i + 1].
  std::vector<uint32_t> predecessors, begins{0};
};

} // namespace fcdp
