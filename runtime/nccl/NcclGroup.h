// SPDX-License-Identifier: Apache-2.0
//
// A group of ranks on NCCL: one communicator.
#pragma once

#include "cuda/CudaLibrary.h"
#include "cuda/DeviceGroup.h"
#include "nccl/NcclLibrary.h"

#include <functional>

namespace fcdp {

/// How small values come from one rank to others: of the job's store.
struct IdExchange {
  std::function<void(const std::string &key, const std::string &value)> set;
  /// Waits until somebody has set it; throws after `seconds`.
  std::function<std::string(const std::string &key, double seconds)> get;
};

struct NcclGroupOptions {
  std::shared_ptr<const NcclLibrary> nccl;
  std::shared_ptr<const CudaLibrary> cuda;
  /// The number of this rank's device, as this process sees it.
  int device = 0;
  std::vector<uint32_t> worldRanks;
  /// This one's place among `worldRanks`.
  uint32_t rank = 0;
  /// Rank 0 of the group gives the others the communicator's id.
  IdExchange ids;
  /// Keeps the keys of groups apart that have one first rank, such as those of
  /// gathers and of reductions: equal on the ranks of one group.
  std::string name;
  /// All ranks must have joined within this time.
  double joinSeconds = 60;
  /// A call that enqueues returns within this time.
  double callSeconds = 300;
};

/// Joins the group and connects its ranks, so that no later call waits for a
/// peer. All ranks make their groups in one order. Throws DeviceGroupError,
/// which names the group and what is missing. Follows the thread-safety rules
/// of `DeviceGroup`; a group of one rank needs no NCCL.
std::unique_ptr<DeviceGroup> makeNcclGroup(const NcclGroupOptions &options);

/// Lets several ranks use one device, which NCCL refuses within what it takes
/// for one machine: sets NCCL_HOSTID to a value of this rank's own, so that
/// they talk over the network. To be called before the first group is made.
void shareDevice(const std::string &jobName, uint32_t worldRank);

} // namespace fcdp
