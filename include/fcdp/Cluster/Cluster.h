// SPDX-License-Identifier: Apache-2.0
//
// Describes the cluster that a job runs on: nodes, their devices and the links
// between them. It is read from YAML; docs/cluster.md has the schema. This code
// does not depend on the IR.
#pragma once

#include "fcdp/Cluster/CollectiveTables.h"
#include "fcdp/Cluster/Device.h"
#include "fcdp/Cluster/Profile.h"
#include "fcdp/Cluster/Spread.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/MemoryBufferRef.h"

#include <cstdint>
#include <optional>
#include <string>

namespace fcdp {

/// Seconds that the one thread of a rank takes that issues work to its device,
/// ahead of it. All are 0 where the device's own thread does that, as on a CPU.
struct IssueTimes {
  /// An operator, and one whose results are views.
  double op = 0, view = 0;
  /// A collective, and a copy to or from host memory unless `copy` says it.
  double transfer = 0;
  /// What happens once a step, such as reading the next batch.
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
  IssueTimes issue;
};

/// The set of ranks that share the bandwidth of a link.
enum class Sharing {
  /// Each rank has a link of its own.
  rank,
  /// The ranks behind one switch.
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
  /// Number of ranks behind one switch if `sharing` is `switched`. It divides
  /// the number of ranks per node. If it is greater than that, all ranks of a
  /// node share the link: the job uses a part of the node's devices.
  int64_t ranksPerSwitch = 0;
};

/// The coding of what is sent between nodes (docs/wires.md). The defaults were
/// measured on one core of a server, for a model in bf16 at a learning rate of
/// 1e-4.
struct Codec {
  /// Bytes of values per second that a rank codes, and that it decodes.
  double rate = 1e9;
  /// Bits that a value of 16 bits takes: the difference of a parameter from one
  /// step to the next, and a gradient with its exponent coded.
  double deltaBits = 2.4, codedBits = 11.4;
};

/// The algorithm of a collective over all ranks.
enum class FlatCollectives {
  /// Each rank sends to every other rank in one step, as the runtime does over
  /// Gloo.
  direct,
  /// Data travels from rank to rank in G - 1 steps, as in NCCL.
  ring
};

/// Which operators run as one kernel.
enum class Fusion {
  none,
  /// Neighbouring operators without products that work on the same number of
  /// elements, as torch.compile joins them.
  pointwise
};

/// What sums gradients over micro-batches on a rank.
enum class SummedBy {
  /// The plan's operations: a pack, a cast to f32 and an addition.
  plan,
  /// One kernel, which reads a gradient and its sum, and writes the sum, as
  /// PyTorch's autograd.
  add,
  /// The products that compute the gradients.
  product
};

struct LocalSums {
  SummedBy by = SummedBy::plan;
  /// The size of an element of the sum, if it is not the plan's.
  int64_t bytes = 4;
};

struct Cluster {
  std::string name;
  int64_t nodes = 0, ranksPerNode = 0;
  Device device;
  Host host;
  /// Between nodes, within a node, host to device, device to host.
  Link inter, intra, h2d, d2h;
  /// Measured bus bandwidths, used in place of `inter` and `intra` for gathers
  /// and reductions if nodes have the number of ranks that was measured.
  CollectiveTables collectives;
  FlatCollectives flatCollectives = FlatCollectives::direct;
  Codec codec;
  Fusion fusion = Fusion::none;
  LocalSums localSums;
  /// How unevenly a mixture's tokens choose its experts: the load of the i-th
  /// is in proportion to 1 / i^expertSkew. 0 if all have the same.
  double expertSkew = 0;
  Spread spread;
  /// Measured durations of operations, used in place of estimates. Null if
  /// there is no profile. It is not part of the YAML description.
  std::shared_ptr<const Profile> profile;

  /// Lets what was measured replace estimates.
  void setProfile(std::shared_ptr<const Profile> measured);
  /// Changes the bandwidth between nodes. Measured collectives change with it:
  /// the part of their time that is in proportion to bytes.
  void setInterBandwidth(double bandwidth);

  int64_t getWorldSize() const { return nodes * ranksPerNode; }
  /// Returns what a plan may use of each device, and what it may not.
  DeviceCapacity getDeviceCapacity() const {
    return divideMemory(device.memory, device.reserve, getWorldSize());
  }
  /// Returns the number of ranks that share one domain of `link`.
  int64_t getSharers(const Link &link) const;
  /// Returns the seconds that it takes if every rank reads or writes `bytes` of
  /// host memory, or 0 if the host's bandwidth is not known.
  double getHostMemoryTime(double bytes) const;
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
/// The descriptions in `cluster/`, in alphabetical order.
llvm::ArrayRef<ClusterPreset> getClusterPresets();
/// Returns their names for a message: "a100-40gb, a100-80gb, ...".
std::string listClusterPresets();

} // namespace fcdp
