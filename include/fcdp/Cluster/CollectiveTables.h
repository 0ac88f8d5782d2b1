// SPDX-License-Identifier: Apache-2.0
//
// Measured bus bandwidths of collectives, as nccl-tests prints them. This code
// does not depend on the IR.
#pragma once

#include "dialects/Fcdp/Enums.h"
#include "fcdp/Cluster/RateCurve.h"

#include <cstdint>
#include <map>
#include <optional>

namespace fcdp {

/// The ranks that take part in one collective.
enum class RankSet {
  /// All ranks.
  world,
  /// The ranks of equal number on all nodes, one group for each number, all
  /// groups at the same time.
  node,
  /// The ranks of a node, on all nodes at the same time.
  local
};
inline constexpr RankSet kRankSets[] = {RankSet::world, RankSet::node,
                                        RankSet::local};

/// Return the keys of a description.
const char *stringify(RankSet set);
const char *stringify(CollectiveKind kind);

/// Bytes per second of one rank: (n-1)/n of the whole, divided by the time, for
/// n ranks. The whole is the result of a gather, or the input of a reduction,
/// on each rank (nccl-tests, doc/PERFORMANCE.md).
struct BusBandwidth {
  double rate = 0;
  /// The highest rate of any size on that number of nodes.
  double peak = 0;
};

/// Bus bandwidths of one collective by the bytes of the whole and the number of
/// nodes.
class BusTable {
public:
  /// Adds a point, or replaces the one of the same size and nodes. Returns
  /// whether there was none.
  bool set(int64_t nodes, double bytes, double rate);
  /// Multiplies the rates on `nodes` nodes by `factor`.
  void scale(int64_t nodes, double factor);
  bool empty() const { return curves.empty(); }
  /// Returns the curves by number of nodes.
  const std::map<int64_t, RateCurve> &getCurves() const { return curves; }

  /// Returns the bandwidth of a whole of `bytes`. Between two points it lies on
  /// the line that joins them in logarithms, first in bytes and then in nodes.
  /// Beyond the largest size, and outside of the numbers of nodes, the nearest
  /// rate holds. Below the smallest size, the time stays that of the smallest.
  /// Rates on one node do not predict rates on several nodes, nor the reverse,
  /// so it returns none if there are no others.
  std::optional<BusBandwidth> read(double bytes, int64_t nodes) const;

private:
  std::map<int64_t, RateCurve> curves;
};

struct CollectiveTables {
  struct Kinds {
    BusTable allGather, reduceScatter;

    BusTable &get(CollectiveKind kind) {
      return kind == CollectiveKind::allGather ? allGather : reduceScatter;
    }
    const BusTable &get(CollectiveKind kind) const {
      return const_cast<Kinds *>(this)->get(kind);
    }
    bool empty() const { return allGather.empty() && reduceScatter.empty(); }
  };
  Kinds world, node, local;
  /// The number of ranks of a node that was measured.
  int64_t ranksPerNode = 0;
  /// The bandwidth between nodes relative to the measured one. It changes the
  /// part of a time that is in proportion to bytes.
  double interScale = 1;

  Kinds &get(RankSet set) {
    return set == RankSet::world ? world : set == RankSet::node ? node : local;
  }
  const Kinds &get(RankSet set) const {
    return const_cast<CollectiveTables *>(this)->get(set);
  }
  bool empty() const { return world.empty() && node.empty() && local.empty(); }

  /// Returns the bandwidth of a collective on `nodes` nodes, from its own table
  /// or derived from the table of another set of ranks:
  ///
  /// - `world` on one node and `local` are the same collective.
  /// - `node` from `world`: in t seconds, flat rings over N nodes of g ranks
  ///   send (G-1)/G W out of each node, so its uplinks carry at least the bus
  ///   bandwidth B(W). The g groups of `node` with a whole of W/g each send
  ///   (N-1)/N W out of each node. At that rate each group has a bus bandwidth
  ///   of B(W)/g. It is a lower bound: within a node, rings may be slower than
  ///   its uplinks, and short messages wait for G - 1 steps instead of N - 1.
  /// - A gather and a reduction move the same bytes in opposite directions, so
  ///   each is used in place of the other.
  std::optional<BusBandwidth> read(RankSet set, CollectiveKind kind,
                                   double bytes, int64_t nodes) const;

private:
  std::optional<BusBandwidth> readKind(RankSet set, CollectiveKind kind,
                                       double bytes, int64_t nodes) const;
};

} // namespace fcdp
