// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "llvm/ADT/SmallVector.h"

namespace fcdp {

/// A directed graph with capacities between a source and a sink.
class MinimumCut {
public:
  static constexpr size_t kSource = 0, kSink = 1;

  explicit MinimumCut(size_t nodes) : outgoing(nodes) {}

  void addEdge(size_t from, size_t to, double capacity);

  /// Finds the cut of least capacity, with the fewest nodes on the source's
  /// side, by Dinic's algorithm. Returns for each node whether it is on that
  /// side.
  llvm::SmallVector<bool> solve();

private:
  struct Edge {
    size_t to;
    /// The residual capacity. An edge's reverse is next to it.
    double rest;
  };
  bool findLevels();
  void augment();

  llvm::SmallVector<Edge> edges;
  /// Indices of edges, by node.
  llvm::SmallVector<llvm::SmallVector<size_t, 4>> outgoing;
  /// Distance from the source by node; -1 if there is no path.
  llvm::SmallVector<int> level;
};

} // namespace fcdp
