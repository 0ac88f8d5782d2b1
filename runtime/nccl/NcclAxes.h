// SPDX-License-Identifier: Apache-2.0
//
// Makes a rank's NCCL groups over all axes of the mesh.
#pragma once

#include "job/Job.h"
#include "nccl/NcclGroup.h"

#include <array>

namespace fcdp {

struct NcclAxesOptions {
  std::shared_ptr<const NcclLibrary> nccl;
  std::shared_ptr<const CudaLibrary> cuda;
  /// The number of this rank's device in this process.
  int device = 0;
  Mesh mesh;
  Place place;
  /// The groups to create; equal on all ranks.
  AxisGroups nodeGroups, localGroups, worldGroups{false, false};
  /// Whether `joinAll` will be called, too.
  bool hasAll = false;
  /// Exchanges the ids of the groups between ranks.
  IdExchange ids;
  /// Whether the process ends after a failure. Work that no abort ends then
  /// harms nothing, and copy engines may exchange chunks within a node.
  bool endsAfterFailure = false;
  /// See NcclGroupOptions.
  double joinSeconds = 60;
  OnBlocked onBlocked = {};
};

/// Groups by `AxisId`.
using NcclAxes = std::array<AxisDeviceGroups, kNumAxes>;

/// Joins the groups, in the same order on all ranks. All ranks must call it.
/// Throws what `makeNcclGroup` throws.
NcclAxes joinAxes(const NcclAxesOptions &options);

/// Returns the limit on the thread blocks of a collective of these groups.
uint32_t findMostCtas(const NcclAxesOptions &options);

/// Joins all ranks, in the order of their shards, in a separate group. All
/// ranks must call it, in the same order relative to `joinAxes`. Throws what
/// `makeNcclGroup` throws.
std::unique_ptr<DeviceGroup> joinAll(const NcclAxesOptions &options);

} // namespace fcdp
