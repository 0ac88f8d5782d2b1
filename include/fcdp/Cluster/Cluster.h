// SPDX-License-Identifier: Apache-2.0
//
// Describes the cluster that a job runs on: nodes, their devices and the links
// between them. It is read from YAML; docs/cluster.md has the schema. This code
// does not depend on the IR.
#pragma once

#include "fcdp/Cluster/CollectiveTables.h"
#include "fcdp/Cluster/Device.h"
#include "fcdp/Cluster/MessageRates.h"
#include "fcdp/Cluster/Profile.h"
#include "fcdp/Cluster/Spread.h"
#include "runtime/core/Links.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/MemoryBufferRef.h"

#include <cstdint>
#include <optional>
#include <string>

namespace fcdp {

/// Seconds for which the one thread of a rank is busy when it issues work to
/// the device, ahead of its execution. All are 0 if the device's own thread
/// issues, as on a CPU.
struct IssueTimes {
  /// An operator, and an operator whose results are views.
  double op = 0, view = 0;
  /// A collective. Also a copy to or from host memory, unless `copy` is set.
  double transfer = 0;
  /// Work that happens once per step, such as reading the next batch.
  double step = 0;
  std::optional<double> copy;

  double getCopy() const { return copy.value_or(transfer); }
};

/// The host that the ranks of a node share.
struct Host {
  /// Bytes.
  int64_t memory = 0;
  /// Bytes per second of all host memory, reads and writes together. Optional.
  std::optional<double> memoryBandwidth;
  /// Number of NUMA nodes. Memory, bandwidth and ranks are divided equally
  /// among them, and each rank's slices of the host cache are on its NUMA node.
  int64_t numaNodes = 1;
  /// Bytes per second in each direction of the link between two NUMA nodes of a
  /// host, if what devices of one send to those of the other passes over it.
  /// Only for two NUMA nodes. Optional.
  std::optional<double> socketBandwidth;
  /// Bytes per second of a node's local disks, which its ranks share, with as
  /// many reads as writes at the same time. By default that of one NVMe disk.
  double fileBandwidth = 2e9;
  /// Elements per second that the processors of one rank update in host memory,
  /// at most. The default is that of AdamW on one core.
  double updateRate = 8e8;
  IssueTimes issue;
};

/// The set of ranks that share the bandwidth of a link.
enum class Sharing {
  /// Each rank has a link of its own.
  rank,
  /// The ranks that share one switch.
  switched,
  /// All ranks of a node.
  node
};

struct Link {
  /// Bytes per second that all ranks of one sharing domain can send together,
  /// while they receive the same amount.
  double bandwidth = 0;
  /// Seconds from the start of a message until its first byte arrives.
  double latency = 0;
  Sharing sharing = Sharing::rank;
  /// Number of ranks that share a switch if `sharing` is `switched`. It divides
  /// the number of ranks per node. If it is greater than that, all ranks of a
  /// node share the link: the job uses a part of the node's devices.
  int64_t ranksPerSwitch = 0;
  /// The share of a device's processors that collectives over this link take
  /// from products meanwhile, if it is not the device's `collectiveShare`.
  std::optional<double> collectiveShare = std::nullopt;
};

/// The algorithm of a collective over all ranks.
enum class FlatCollectives {
  /// Each rank sends to every other rank in one step, as the runtime does over
  /// Gloo.
  direct,
  /// Data travels from rank to rank in G - 1 steps, as in NCCL.
  ring
};

/// The algorithm of a reduction within a node.
enum class LocalReductions {
  /// Each rank sends its chunks to their owners, which sum them, as the runtime
  /// does.
  exchange,
  /// NCCL's ring, in which each rank adds its chunk, as with
  /// `fcdp-run --reductions-by=nccl`.
  ring
};

/// Which operators run as one kernel.
enum class Fusion {
  none,
  /// Neighbouring operators without products that work on the same number of
  /// elements, as torch.compile joins them.
  pointwise
};

/// The operation that accumulates gradients over micro-batches on a rank.
enum class SummedBy {
  /// The plan's operations: a pack, a cast to f32 and an addition.
  plan,
  /// One kernel that reads a gradient and its accumulator, and writes the
  /// accumulator, as PyTorch's autograd does.
  add,
  /// The products that compute the gradients.
  product
};

struct LocalSums {
  SummedBy by = SummedBy::plan;
  /// The size in bytes of an element of the accumulator, if it is not the
  /// plan's.
  int64_t bytes = 4;
};

struct Cluster {
  std::string name;
  int64_t nodes = 0, ranksPerNode = 0;
  Device device;
  Host host;
  LinkArray<Link> links;
  /// Measured bus bandwidths, used in place of the links between ranks for
  /// gathers and reductions if nodes have the number of ranks that was
  /// measured.
  CollectiveTables collectives;
  FlatCollectives flatCollectives = FlatCollectives::direct;
  LocalReductions localReductions = LocalReductions::exchange;
  MessageRates messages;
  Fusion fusion = Fusion::none;
  LocalSums localSums;
  /// The imbalance of a mixture of experts: the load of the i-th expert is in
  /// proportion to 1 / i^expertSkew. With 0, all experts have the same load.
  double expertSkew = 0;
  Spread spread;
  /// Measured durations of operations, used in place of estimates. Null if
  /// there is no profile. It is not part of the YAML description.
  std::shared_ptr<const Profile> profile;

  /// Sets the measured durations, which replace estimates.
  void setProfile(std::shared_ptr<const Profile> measured);
  /// Changes the bandwidth between nodes. The times of measured collectives
  /// change with it, in the part that is in proportion to bytes.
  void setInterBandwidth(double bandwidth);

  int64_t getWorldSize() const { return nodes * ranksPerNode; }
  /// Returns the bytes of each device that a plan may use, and those that are
  /// reserved.
  DeviceCapacity getDeviceCapacity() const {
    return divideMemory(device.memory, device.reserve, getWorldSize());
  }
  /// Returns the number of ranks that share one domain of `link`.
  int64_t getSharers(const Link &link) const;
  /// Returns the seconds for every rank to read or write `bytes` of host
  /// memory, or 0 if the host's bandwidth is not known.
  double getHostMemoryTime(double bytes) const;
  /// Returns the seconds for every rank to read `bytes` of files while it
  /// writes as many, or to write them.
  double getFileTime(double bytes) const {
    return 2 * static_cast<double>(ranksPerNode) * bytes / host.fileBandwidth;
  }
  /// Returns an error if a number is out of range or contradicts another one.
  /// The readers call it, and so must any code that changes a cluster.
  llvm::Error check() const;
};

/// Parses a description. The error reads `FILE:LINE: error: ...`, where FILE is
/// the name of the buffer.
llvm::Expected<Cluster> parseCluster(llvm::MemoryBufferRef text);

/// Loads the preset of that name or, if there is none, the file.
llvm::Expected<Cluster> loadCluster(llvm::StringRef fileOrPreset);

/// Loads a description, replaces its numbers of nodes and ranks, and adds the
/// profile in the file `profile` unless that name is empty. Returns an error if
/// the description does not allow these numbers.
llvm::Expected<Cluster> loadCluster(llvm::StringRef fileOrPreset, int64_t nodes,
                                    int64_t ranksPerNode,
                                    llvm::StringRef profile);

/// Returns `cluster` with other numbers of nodes and ranks, or an error if its
/// description does not allow them.
llvm::Expected<Cluster> withRanks(Cluster cluster, int64_t nodes,
                                  int64_t ranksPerNode);

struct ClusterPreset {
  llvm::StringRef name, yaml;
};
/// Returns the descriptions in `cluster/`, in alphabetical order.
llvm::ArrayRef<ClusterPreset> getClusterPresets();
/// Returns their names for a message: "a100-40gb, a100-80gb, ...".
std::string listClusterPresets();

} // namespace fcdp
