// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace fcdp {

/// The resources that operations on different streams compete for. All ranks do
/// the same at the same time, so these are the resources of one rank.
enum class Resource { compute, inter, intra, h2d, d2h, host };
inline constexpr unsigned kNumResources =
    static_cast<unsigned>(Resource::host) + 1;
inline constexpr const char *kResourceNames[kNumResources] = {
    "compute", "inter", "intra", "h2d", "d2h", "host"};

/// The cost of an operation on one rank while all ranks run it.
struct Cost {
  Resource resource = Resource::compute;
  /// Seconds in which it occupies its stream but no resource.
  double latency = 0;
  /// Seconds of the resource at its full rate. Operations that use the resource
  /// at the same time share it.
  double seconds = 0;
  /// Seconds of full memory bandwidth that it needs, of the device and of the
  /// host. If concurrent streams demand more than there is, they share the
  /// bandwidth in proportion to their demand.
  double deviceMemory = 0, hostMemory = 0;
  /// Share of the device's processors that it occupies. Compute that runs at
  /// the same time has the rest.
  double processors = 0;
  /// Seconds for which the issuing thread is busy.
  double issue = 0;

  /// Returns the duration in seconds if nothing else uses the resource.
  double getTotal() const { return latency + seconds; }
};

} // namespace fcdp
