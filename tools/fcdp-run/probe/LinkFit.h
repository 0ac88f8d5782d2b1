// SPDX-License-Identifier: Apache-2.0
//
// Latency and bandwidth of a link, by the times that some sizes take.
#pragma once

#include <cstdint>
#include <vector>

namespace fcdp::run {

/// How long it takes to send so many bytes.
struct TimedSize {
  double bytes, seconds;

  double rate() const { return bytes / seconds; }
};

struct LinkFigures {
  double latency = 0;   ///< seconds
  double bandwidth = 0; ///< bytes per second, above 0
};

/// A link as one rank sees it while all ranks of its node use it.
struct SharedLink {
  LinkFigures each;
  uint32_t sharers = 1; ///< ranks that share it; divides those of a node
};

/// How many of the `ranks` of a node share a link which gives each of them
/// `slowdown` times the seconds that one alone takes: of the numbers that
/// divide `ranks`, the one with the nearest ratio. Pre: `slowdown` is above 0.
uint32_t countSharers(double slowdown, uint32_t ranks);

/// The sizes that are not much quicker a byte than the largest one, in their
/// order. A shaper that lets bursts through, as clouds have them, makes others
/// quick, which says nothing of what lasts. Pre: there is a size.
std::vector<TimedSize> withoutBursts(const std::vector<TimedSize> &times);

/// Hockney's latency + bytes / bandwidth, with the least sum of squares of
/// relative errors, so that small sizes count as much as large ones. Latency is
/// at least 0. Bursts are left out. Pre: there is a size above 0, and all times
/// are above 0.
LinkFigures fitLink(const std::vector<TimedSize> &times);

} // namespace fcdp::run
