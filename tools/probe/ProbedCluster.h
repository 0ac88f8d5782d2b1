// SPDX-License-Identifier: Apache-2.0
//
// The results of a probe, in the form of docs/cluster.md.
#pragma once

#include "core/Backend.h"
#include "core/Mesh.h"
#include "probe/LinkFit.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace fcdp::probe {

/// The times of collectives along one axis, by the bytes that a rank sends.
struct ProbedCollectives {
  std::vector<TimedSize> gathers, reductions;
};

/// A measured product of m x k by k x n, or a batch of such products.
struct ProbedProduct {
  DType type;
  int64_t m, n, k;
  double flops; ///< operations per second
  int64_t batch = 1;

  double operations() const {
    return 2.0 * double(batch) * double(m) * double(n) * double(k);
  }
  double seconds() const { return operations() / flops; }
};

/// The rate at which operators that access `bytes` bytes access memory.
struct RateOfSize {
  double bytes, rate;
};

/// The rates of a GPU's operators.
struct OperatorRates {
  std::vector<ProbedProduct> products;
  /// By ascending sizes.
  std::vector<RateOfSize> curve;
  double launchLatency = 0; ///< seconds

  /// Returns the greatest rate of products in operands of `type`.
  double best(DType type) const;
  /// Returns the product with the most operations, of the type with the
  /// greatest rate. Pre: there is a product.
  ProbedProduct largestOfFastest() const;
};

/// The rate of attention with `keys` keys, in operations per second.
struct RateOfKeys {
  double keys, rate;
};

/// The rates of a GPU's fused attention.
struct AttentionFigures {
  DType type = DType::BF16; ///< of the operands
  /// By ascending numbers of keys.
  std::vector<RateOfKeys> forward, backward;
  /// The factors for a mask that is given, and for narrow heads; at most 1.
  double masked = 1, narrow = 1;
};

/// The behaviour of a GPU under sustained load.
struct SustainedFigures {
  double share = 1; ///< of the rates of single kernels, at most 1
  /// The standard deviation of the speeds of devices, relative to their mean.
  std::optional<double> variation;
};

/// The host's seconds to issue work to a device.
struct IssueRates {
  double op = 0, view = 0, copy = 0;
  /// Seconds for issuing a collective. 0 if there is one rank.
  double transfer = 0;
};

/// The facts that only GPUs have.
struct ProbedGpuFacts {
  /// The date and the software of the measurement, for a reader.
  std::string measured;
  uint32_t processors = 0, major = 0, minor = 0;
  /// Bytes that no plan may use.
  uint64_t context = 0, communicators = 0, workspace = 0;
  double collectiveShare = 0;
  OperatorRates rates;
  /// The rates of attention. Not set if the device has no such kernels, for the
  /// reason `whyNoAttention`.
  std::optional<AttentionFigures> attention;
  std::string whyNoAttention;
  SustainedFigures sustained;
  IssueRates issue;
  /// The types without products, and the reasons.
  std::vector<std::pair<DType, std::string>> missingTypes;
};

/// The scatter of the samples of each measurement, as takeSteady returns it; 0
/// for a measurement without repetition.
struct ProbedSpread {
  double products = 0, memory = 0, launch = 0;
  double inter = 0, interLatency = 0, intra = 0, intraLatency = 0, copies = 0;
};

/// A rate of work that some devices do, which has a section of the description
/// for itself and an entry of that name in the spread.
struct ProbedRate {
  const char *section;
  double rate;        ///< per second
  double scatter;     ///< as in ProbedSpread
  double leastSpread; ///< what other machines and other hours change
};

struct ProbedCluster {
  /// The command that has measured.
  std::string command = "fcdp-run --probe-cluster";
  Mesh mesh;
  /// Bytes of a rank's device and of a node's host memory.
  uint64_t deviceMemory = 0, hostMemory = 0;
  double memoryBandwidth = 0; ///< bytes per second, read and written
  /// The share of it, at most 1, that operators reach which are no products.
  double memoryEfficiency = 1;
  /// The share of all rates, at most 1, that CPUs reach while all ranks work
  /// and wait for each other. ProbedGpuFacts has the share of GPUs.
  double sustained = 1;
  double f64 = 0, f32 = 0, bf16 = 0, f16 = 0; ///< operations per second
  double launchLatency = 0;                   ///< seconds
  std::vector<ProbedRate> rates;
  /// Products of CPUs, besides the rates of the largest above. Products of GPUs
  /// are in `gpu`.
  std::vector<ProbedProduct> products;
  ProbedSpread spread;
  /// Set if the devices are GPUs.
  std::optional<ProbedGpuFacts> gpu;
  /// Bytes per second of a node's memory, if it limits copies in both
  /// directions at once. Only for GPUs.
  std::optional<double> hostBandwidth;
  /// Not set if there is no peer to send to.
  std::optional<SharedLink> inter, intra;
  SharedLink h2d, d2h;
  /// The measured collectives. Empty along an axis of one rank. Collectives
  /// over all ranks are measured if these are another group.
  ProbedCollectives overNodes, overLocals, overWorld;
};

/// Returns the description in the form that --cluster reads.
std::string toYaml(const ProbedCluster &cluster);

} // namespace fcdp::probe
