// SPDX-License-Identifier: Apache-2.0
//
// What a plan does with each bucket, and what else it could do.
#pragma once

#include "fcdp/Cluster/CostModel.h"

#include <array>
#include <optional>
#include <string>
#include <vector>

namespace fcdp {

inline constexpr unsigned kNumResidencies = getMaxEnumValForResidency() + 1;

/// What keeping a bucket's gathered copy in one place takes.
struct ResidencyFacts {
  /// Seconds of links to use the copy again, when nothing else uses them.
  double seconds = 0;
  /// Bytes kept for it, of a rank's device and of a node's host.
  int64_t device = 0, host = 0;
};

struct BucketFacts {
  std::string name, unit;
  bool isTrainable = false;
  /// Of the gathered bucket, in the type on the wire.
  int64_t bytes = 0;
  Sharding sharding = Sharding::world;
  /// Where the copy waits within a micro-batch, and until the next.
  Residency residency = Residency::drop, carry = Residency::drop;
  Accumulation accumulation = Accumulation::sharded;
  /// Over several nodes of several ranks.
  Collectives collectives = Collectives::two_level;
  /// By residency; none where the bucket's sharding rules it out.
  std::array<std::optional<ResidencyFacts>, kNumResidencies> choices;
};

/// The buckets of a module whose residencies are decided, in its order.
std::vector<BucketFacts> describeBuckets(mlir::ModuleOp module,
                                         const CostModel &model);

/// Why a bucket is where it is, in a sentence: what `strategy` says of it and
/// what its place takes beside others.
std::string explain(const BucketFacts &bucket, llvm::StringRef strategy);

} // namespace fcdp
