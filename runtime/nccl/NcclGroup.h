// SPDX-License-Identifier: Apache-2.0
//
// Implements a group of ranks by one NCCL communicator.
#pragma once

#include "cuda/CudaLibrary.h"
#include "cuda/DeviceGroup.h"
#include "nccl/NcclLibrary.h"

#include <functional>

namespace fcdp {

/// Passes small values from one rank to others; the job's store provides it.
struct IdExchange {
  std::function<void(const std::string &key, const std::string &value)> set;
  /// Waits until the key is set. Throws after `seconds`.
  std::function<std::string(const std::string &key, double seconds)> get;
};

struct NcclGroupOptions {
  std::shared_ptr<const NcclLibrary> nccl;
  std::shared_ptr<const CudaLibrary> cuda;
  /// The number of this rank's device in this process.
  int device = 0;
  std::vector<uint32_t> worldRanks;
  /// Index of this rank in `worldRanks`.
  uint32_t rank = 0;
  /// The exchange by which rank 0 of the group sends the communicator's id to
  /// the others.
  IdExchange ids;
  /// Distinguishes groups with the same first rank, such as those of gathers
  /// and of reductions. It is equal on the ranks of one group.
  std::string name;
  /// The most thread blocks of a collective, from 1 on; NCCL's choice if it is
  /// not set.
  std::optional<uint32_t> mostCtas = std::nullopt;
  /// Whether copy engines exchange chunks where NCCL can use them: in a window,
  /// if all ranks are connected by NVLink. No abort ends such an exchange.
  bool exchangesByCopyEngines = false;
  /// The channels of a chunk to a rank on another machine; NCCL's choice if it
  /// is not set.
  std::optional<uint32_t> channelsPerNetPeer = std::nullopt;
  /// Seconds within which all ranks must have joined, and each registration
  /// must end. Each of the first collectives has as long, and the time in which
  /// a slow network sends its bytes.
  double joinSeconds = 60;
  /// Optional; called on the thread that makes or connects the group.
  OnBlocked onBlocked = {};
};

/// Joins the group. All ranks must make their groups in the same order. Throws
/// DeviceGroupError, which names the group and the missing ranks. For
/// thread-safety, see `DeviceGroup`. A group of one rank does not use NCCL.
std::unique_ptr<DeviceGroup> makeNcclGroup(const NcclGroupOptions &options);

/// Lets several ranks use one device. NCCL refuses that for ranks of one
/// machine. So this sets NCCL_HOSTID to a different value on each rank unless
/// the user has, and the ranks communicate over the network. It must be called
/// before the first group is made. Throws std::runtime_error if the process has
/// no reserved place for the variable (core/LibrarySettings.h).
void shareDevice(const std::string &jobName, uint32_t worldRank);

} // namespace fcdp
