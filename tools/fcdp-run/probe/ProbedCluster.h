// SPDX-License-Identifier: Apache-2.0
//
// The results of a probe, in the form of docs/cluster.md.
#pragma once

#include "core/Backend.h"
#include "core/Mesh.h"
#include "probe/LinkFit.h"

#include <optional>
#include <string>
#include <vector>

namespace fcdp::run {

/// The times of collectives along one axis, by the bytes that a rank sends.
struct ProbedCollectives {
  std::vector<TimedSize> gathers, reductions;
};

/// A product of m x k by k x n that was measured.
struct ProbedProduct {
  DType type;
  int64_t m, n, k;
  double flops; ///< operations per second

  double seconds() const {
    return 2.0 * double(m) * double(n) * double(k) / flops;
  }
};

/// The rate at which operators access memory that access so many bytes.
struct RateOfSize {
  double bytes, rate;
};

/// What a GPU's operators reach.
struct OperatorRates {
  std::vector<ProbedProduct> products;
  /// By ascending sizes.
  std::vector<RateOfSize> curve;
  double launchLatency = 0; ///< seconds

  /// The greatest rate of products in operands of `type`.
  double best(DType type) const;
};

/// The host's seconds to issue work to a device.
struct IssueRates {
  double op = 0, view = 0, transfer = 0;
};

/// What only GPUs have.
struct ProbedGpuFacts {
  /// When and with what it was measured, for a reader.
  std::string measured;
  uint32_t processors = 0, major = 0, minor = 0;
  /// Bytes that no plan may use.
  uint64_t context = 0, communicators = 0, workspace = 0;
  double collectiveShare = 0;
  OperatorRates rates;
  IssueRates issue;
};

struct ProbedCluster {
  Mesh mesh;
  /// Bytes of a rank's device and of a node's host memory.
  uint64_t deviceMemory = 0, hostMemory = 0;
  double memoryBandwidth = 0; ///< bytes per second, read and written
  double f64 = 0, f32 = 0, bf16 = 0, f16 = 0; ///< operations per second
  double launchLatency = 0;                   ///< seconds
  /// Bytes of values per second that are coded, and that are decoded.
  double codecRate = 0;
  /// Set if the devices are GPUs.
  std::optional<ProbedGpuFacts> gpu;
  /// Not set if there is no peer to send to.
  std::optional<SharedLink> inter, intra;
  SharedLink h2d, d2h;
  /// Empty along an axis of one rank.
  ProbedCollectives overNodes, overLocals;
};

/// The description, which --cluster takes.
std::string toYaml(const ProbedCluster &cluster);

} // namespace fcdp::run
