// SPDX-License-Identifier: Apache-2.0
//
// What a job runs on: nodes, their devices and the links between them. Read
// from YAML; docs/cluster.md has the schema. Knows no IR.
#pragma once

#include "fcdp/Cluster/Profile.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/MemoryBufferRef.h"

#include <cstdint>
#include <optional>
#include <string>

namespace fcdp {

/// Peak rates of a device in matrix products, in floating-point operations per
/// second, by the type of the operands.
struct FlopRates {
  double f64 = 0, f32 = 0, bf16 = 0, f16 = 0;
};

/// The device of one rank.
struct Device {
  /// Bytes.
  int64_t memory = 0;
  /// Bytes per second, reads and writes together.
  double memoryBandwidth = 0;
  FlopRates flops;
  /// The shares of these rates that operators reach, in (0, 1].
  double computeEfficiency = 0, memoryEfficiency = 0;
  /// The share of `flops` that fused attention reaches, in (0, 1], if known.
  std::optional<double> attentionEfficiency;
  /// Seconds between an operator and the next, when neither does anything.
  double launchLatency = 0;

  /// What is known, or else a share of `computeEfficiency`.
  double getAttentionEfficiency() const;

  /// Seconds to read or write `bytes`.
  double getMemoryTime(double bytes) const {
    return bytes / (memoryBandwidth * memoryEfficiency);
  }
};

/// What the ranks of a node share.
struct Host {
  /// Bytes.
  int64_t memory = 0;
  /// Of all memory, bytes per second, reads and writes together, if known.
  std::optional<double> memoryBandwidth;
  /// Each has an equal part of the memory, of its bandwidth and of the ranks,
  /// which have their slices of the host cache there.
  int64_t numaNodes = 1;
};

/// Who shares the bandwidth of a link.
enum class Sharing {
  /// Nobody: each rank has a link of its own.
  rank,
  /// The ranks behind one switch.
  switched,
  /// All ranks of a node.
  node
};

struct Link {
  /// Bytes per second that all ranks of one sharing domain together can send,
  /// while they receive as many.
  double bandwidth = 0;
  /// Seconds from the start of a message to its first byte's arrival.
  double latency = 0;
  Sharing sharing = Sharing::rank;
  /// Ranks behind one switch, where `sharing` is `switched`; divides the ranks
  /// of a node.
  int64_t ranksPerSwitch = 0;
};

/// How a collective over all ranks travels.
enum class FlatCollectives {
  /// Each rank sends to each other one, in one step: Gloo, as the runtime uses
  /// it.
  direct,
  /// From rank to rank, in as many steps as there are others: NCCL.
  ring
};

struct Cluster {
  std::string name;
  int64_t nodes = 0, ranksPerNode = 0;
  Device device;
  Host host;
  /// Between nodes, within a node, host to device, device to host.
  Link inter, intra, h2d, d2h;
  FlatCollectives flatCollectives = FlatCollectives::direct;
  /// What operations were measured to take there, in place of estimates; null
  /// if nothing was. No part of the description.
  std::shared_ptr<const Profile> profile;

  int64_t getWorldSize() const { return nodes * ranksPerNode; }
  /// Ranks that share one domain of `link`.
  int64_t getSharers(const Link &link) const;
  /// Seconds in which every rank reads or writes `bytes` of host memory; 0 if
  /// its bandwidth is not known.
  double getHostMemoryTime(double bytes) const;
  /// Fails on numbers that are out of range or contradict each other; readers
  /// and whoever changes a cluster call it.
  llvm::Error check() const;
};

/// Reads a description. The error is `FILE:LINE: error: ...`, where FILE is the
/// buffer's name.
llvm::Expected<Cluster> parseCluster(llvm::MemoryBufferRef text);

/// The preset of that name or, if there is none, the file.
llvm::Expected<Cluster> loadCluster(llvm::StringRef fileOrPreset);

/// The same with other numbers of nodes and ranks, and with the profile in the
/// file `profile`, or none if that is empty; fails where the description cannot
/// have such numbers.
llvm::Expected<Cluster> loadCluster(llvm::StringRef fileOrPreset, int64_t nodes,
                                    int64_t ranksPerNode,
                                    llvm::StringRef profile);

/// `cluster` with other numbers of nodes and ranks; fails where its description
/// cannot have them.
llvm::Expected<Cluster> withRanks(Cluster cluster, int64_t nodes,
                                  int64_t ranksPerNode);

struct ClusterPreset {
  llvm::StringRef name, yaml;
};
/// The descriptions in `cluster/`, in alphabetical order.
llvm::ArrayRef<ClusterPreset> getClusterPresets();

} // namespace fcdp
