// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace fcdp {

/// What operations of different streams compete for. All ranks are alike and do
/// the same at the same time, so these are the resources of one rank.
enum class Resource { compute, inter, intra, h2d, d2h };
inline constexpr unsigned kNumResources = 5;
inline constexpr const char *kResourceNames[kNumResources] = {
    "compute", "inter", "intra", "h2d", "d2h"};

/// What an operation takes on one rank while all ranks run it.
struct Cost {
  Resource resource = Resource::compute;
  /// Seconds in which it holds its stream but no resource.
  double latency = 0;
  /// Seconds of the resource at its full rate. Operations that use it at once
  /// share it.
  double seconds = 0;
  /// Of these, those in which it would keep all bandwidth of the device's
  /// memory busy, and of its part of the host's. Where operations of several
  /// streams ask for more than there is, they share it as they ask for it.
  double deviceMemory = 0, hostMemory = 0;

  /// Seconds if nothing else uses the resource.
  double getTotal() const { return latency + seconds; }
};

} // namespace fcdp
