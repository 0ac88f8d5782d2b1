// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Simulation/LowerBound.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

#include <algorithm>
#include <queue>

using namespace fcdp;

namespace {
/// A job that can run now, with its tail and the seconds that remain.
struct Ready {
  double tail, left;
  bool operator<(const Ready &other) const { return tail < other.tail; }
};
} // namespace

double fcdp::boundOneMachine(llvm::ArrayRef<MachineJob> jobs) {
  std::vector<MachineJob> byHead(jobs.begin(), jobs.end());
  llvm::sort(byHead, [](const MachineJob &a, const MachineJob &b) {
    return a.head < b.head;
  });
  std::priority_queue<Ready> ready;
  double now = 0, end = 0;
  size_t next = 0;
  while (next < byHead.size() || !ready.empty()) {
    if (ready.empty())
      now = std::max(now, byHead[next].head);
    for (; next < byHead.size() && byHead[next].head <= now; ++next)
      ready.push({byHead[next].tail, byHead[next].seconds});
    Ready job = ready.top();
    ready.pop();
    // Another job with a greater tail may become ready before this one is done.
    double done = now + job.left;
    double until =
        next < byHead.size() ? std::min(done, byHead[next].head) : done;
    if (until < done)
      ready.push({job.tail, done - until});
    else
      end = std::max(end, done + job.tail);
    now = until;
  }
  return end;
}

uint32_t DependenceGraph::add(const Cost &cost, llvm::ArrayRef<uint32_t> needed,
                              bool onComputeStream) {
  costs.push_back(cost);
  isOnComputeStream.push_back(cost.resource == Resource::compute &&
                              onComputeStream);
  predecessors.insert(predecessors.end(), needed.begin(), needed.end());
  begins.push_back(predecessors.size());
  return costs.size() - 1;
}

namespace {
/// Seconds by resource.
using Seconds = std::array<double, kNumResources>;

/// Computes the earliest begin of each node. The durations of the transfers
/// that must precede a node are added by resource, because a resource does one
/// at a time. Each transfer is counted at the first compute node that needs it,
/// so it is counted once on every path.
class Heads {
public:
  explicit Heads(size_t count) : heads(count), transfers(count), onWay(count) {}

  /// Adds a node. Nodes are added in the order of the graph.
  void add(uint32_t node, const Cost &cost, llvm::ArrayRef<uint32_t> needed,
           llvm::ArrayRef<Cost> costs);
  std::vector<double> take() { return std::move(heads); }

private:
  std::vector<double> heads;
  /// Transfers that each node other than compute depends on, including itself.
  std::vector<llvm::SmallVector<uint32_t, 2>> transfers;
  std::vector<Seconds> onWay;
  llvm::DenseSet<uint32_t> counted;
};
} // namespace

void Heads::add(uint32_t node, const Cost &cost,
                llvm::ArrayRef<uint32_t> needed, llvm::ArrayRef<Cost> costs) {
  bool isCompute = cost.resource == Resource::compute && cost.getTotal() > 0;
  for (uint32_t before : needed) {
    heads[node] =
        std::max(heads[node], heads[before] + costs[before].getTotal());
    for (unsigned i = 0; i < kNumResources; ++i)
      onWay[node][i] = std::max(onWay[node][i], onWay[before][i]);
    if (!isCompute)
      transfers[node].append(transfers[before]);
  }
  if (!isCompute) {
    if (cost.seconds > 0)
      transfers[node].push_back(node);
    return;
  }
  for (uint32_t before : needed)
    for (uint32_t transfer : transfers[before])
      if (counted.insert(transfer).second)
        onWay[node][static_cast<unsigned>(costs[transfer].resource)] +=
            costs[transfer].seconds;
  heads[node] = std::max(heads[node], *llvm::max_element(onWay[node]));
}

double DependenceGraph::boundHost() const {
  double sum = 0;
  for (const Cost &cost : costs)
    sum += cost.issue;
  return sum;
}

double DependenceGraph::boundComputeStream(llvm::ArrayRef<double> heads,
                                           llvm::ArrayRef<double> tails) const {
  std::vector<MachineJob> jobs;
  for (auto [node, cost] : llvm::enumerate(costs))
    if (isOnComputeStream[node] && cost.getTotal() > 0)
      jobs.push_back({heads[node], cost.getTotal(), tails[node]});
  return boundOneMachine(jobs);
}

std::array<double, kNumResources> DependenceGraph::bound() const {
  size_t count = costs.size();
  auto predecessorsOf = [&](size_t node) {
    return llvm::ArrayRef(predecessors)
        .slice(begins[node], begins[node + 1] - begins[node]);
  };
  Heads earliest(count);
  for (size_t node = 0; node < count; ++node)
    earliest.add(node, costs[node], predecessorsOf(node), costs);
  std::vector<double> heads = earliest.take(), tails(count);
  for (size_t node = count; node-- > 0;)
    for (uint32_t before : predecessorsOf(node))
      tails[before] =
          std::max(tails[before], tails[node] + costs[node].getTotal());

  std::array<std::vector<MachineJob>, kNumResources> jobs;
  for (size_t node = 0; node < count; ++node) {
    const Cost &cost = costs[node];
    if (cost.seconds > 0)
      jobs[static_cast<unsigned>(cost.resource)].push_back(
          {heads[node], cost.seconds, tails[node]});
  }
  std::array<double, kNumResources> bounds{};
  for (unsigned i = 0; i < kNumResources; ++i)
    bounds[i] = boundOneMachine(jobs[i]);
  double &compute = bounds[static_cast<unsigned>(Resource::compute)];
  compute = std::max({compute, boundComputeStream(heads, tails), boundHost()});
  return bounds;
}
