// SPDX-License-Identifier: Apache-2.0

#include "MinimumCut.h"

#include <algorithm>
#include <limits>

using namespace fcdp;

void MinimumCut::addEdge(size_t from, size_t to, double capacity) {
  outgoing[from].push_back(edges.size());
  edges.push_back({to, capacity});
  outgoing[to].push_back(edges.size());
  edges.push_back({from, 0});
}

bool MinimumCut::findLevels() {
  level.assign(outgoing.size(), -1);
  level[kSource] = 0;
  llvm::SmallVector<size_t> queue{kSource};
  for (size_t next = 0; next < queue.size(); ++next)
    for (size_t index : outgoing[queue[next]]) {
      const Edge &edge = edges[index];
      if (edge.rest <= 0 || level[edge.to] != -1)
        continue;
      level[edge.to] = level[queue[next]] + 1;
      queue.push_back(edge.to);
    }
  return level[kSink] != -1;
}

/// Saturates all shortest paths to the sink. It does not recurse, because a
/// path may be as long as the program.
void MinimumCut::augment() {
  llvm::SmallVector<size_t> tried(outgoing.size(), 0);
  llvm::SmallVector<size_t> path; // edges from the source on
  auto end = [&] { return path.empty() ? kSource : edges[path.back()].to; };
  while (true) {
    size_t node = end();
    if (node == kSink) {
      double flow = std::numeric_limits<double>::infinity();
      for (size_t index : path)
        flow = std::min(flow, edges[index].rest);
      size_t full = path.size();
      for (size_t i = path.size(); i-- > 0;) {
        edges[path[i]].rest -= flow;
        edges[path[i] ^ 1].rest += flow;
        if (edges[path[i]].rest <= 0)
          full = i;
      }
      path.truncate(full);
      continue;
    }
    if (tried[node] < outgoing[node].size()) {
      size_t index = outgoing[node][tried[node]];
      const Edge &edge = edges[index];
      if (edge.rest > 0 && level[edge.to] == level[node] + 1)
        path.push_back(index);
      else
        ++tried[node];
      continue;
    }
    if (path.empty())
      return;
    path.pop_back();
    ++tried[end()];
  }
}

llvm::SmallVector<bool> MinimumCut::solve() {
  while (findLevels())
    augment();
  llvm::SmallVector<bool> isReached;
  for (int distance : level)
    isReached.push_back(distance != -1);
  return isReached;
}
