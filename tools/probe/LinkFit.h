// SPDX-License-Identifier: Apache-2.0
//
// Computes the latency and bandwidth of a link from the times of several sizes.
#pragma once

#include <cstdint>
#include <vector>

namespace fcdp::probe {

/// The time of sending `bytes`.
struct TimedSize {
  double bytes, seconds;

  double rate() const { return bytes / seconds; }
};

struct LinkFigures {
  double latency = 0;   ///< seconds
  double bandwidth = 0; ///< bytes per second, above 0
};

/// A link as one rank measures it while all ranks of its node use it.
struct SharedLink {
  LinkFigures each;
  uint32_t sharers = 1; ///< ranks that share it; divides those of a node
  /// The share of a rank's processors that transfers take from computing.
  double processors = 0;
};

/// Returns the number of the node's `ranks` that share a link. `slowdown` is
/// the ratio of the seconds that each needs to the seconds of one rank alone.
/// The result is the divisor of `ranks` that is nearest to it, as a ratio. Pre:
/// `slowdown` is above 0.
uint32_t countSharers(double slowdown, uint32_t ranks);

/// Returns the sizes that are not much faster per byte than the largest one, in
/// their order. A traffic shaper that lets bursts through, as in clouds, makes
/// other sizes fast, but not for long. Pre: there is a size.
std::vector<TimedSize> withoutBursts(const std::vector<TimedSize> &times);

/// Fits Hockney's latency + bytes / bandwidth, with the least sum of squares of
/// relative errors, so that small sizes count as much as large ones. The
/// latency is at least 0. Bursts are left out. Pre: there is a size above 0,
/// and all times are above 0.
LinkFigures fitLink(const std::vector<TimedSize> &times);

} // namespace fcdp::probe
