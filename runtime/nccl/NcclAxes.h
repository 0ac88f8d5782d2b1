// SPDX-License-Identifier: Apache-2.0
//
// The groups of a rank over all axes of the mesh, on NCCL.
#pragma once

#include "collectives/Job.h"
#include "nccl/NcclGroup.h"

#include <array>

namespace fcdp {

struct NcclAxesOptions {
  std::shared_ptr<const NcclLibrary> nccl;
  std::shared_ptr<const CudaLibrary> cuda;
  /// The number of this rank's device, as this process sees it.
  int device = 0;
  Mesh mesh;
  Place place;
  /// Which groups are made; equal on all ranks.
  AxisGroups nodeGroups, localGroups, worldGroups{false, false};
  /// How the ranks of a group find each other.
  IdExchange ids;
  /// See NcclGroupOptions.
  double joinSeconds = 60;
  double callSeconds = 300;
};

/// By `Axis`.
using NcclAxes = std::array<AxisDeviceGroups, kNumAxes>;

/// Joins them in one order on all ranks, which all call it. Throws what
/// `makeNcclGroup` does.
NcclAxes joinAxes(const NcclAxesOptions &options);

/// All ranks in the order of their shards, in a group that no axis has. All of
/// them call it, at the same place among the calls of `joinAxes`. Throws what
/// that does.
std::unique_ptr<DeviceGroup> joinAll(const NcclAxesOptions &options);

} // namespace fcdp
