// SPDX-License-Identifier: Apache-2.0
//
// Describes the decisions for each bucket and their alternatives.
#pragma once

#include "fcdp/Cluster/CostModel.h"

#include <array>
#include <optional>
#include <string>
#include <vector>

namespace fcdp {

/// The cost of a residency for one bucket.
struct ResidencyFacts {
  /// Seconds of the copy's next use on idle links.
  double seconds = 0;
  /// Bytes that are kept on each rank's device and in each node's host memory.
  int64_t device = 0, host = 0;
};

struct BucketFacts {
  std::string name, unit;
  bool isTrainable = false;
  /// Bytes of the gathered bucket in its wire type.
  int64_t bytes = 0;
  Sharding sharding = Sharding::world;
  /// The residency within a micro-batch, and from one micro-batch to the next.
  Residency residency = Residency::drop, carry = Residency::drop;
  Accumulation accumulation = Accumulation::sharded;
  /// Takes effect only with several nodes of several ranks.
  Collectives collectives = Collectives::two_level;
  /// The forms of messages between nodes, each with the name of its attribute.
  llvm::SmallVector<std::pair<llvm::StringRef, llvm::StringRef>> messages;
  /// The cost of each residency; none for a residency that the bucket's
  /// sharding rules out.
  std::array<std::optional<ResidencyFacts>, kNumResidencies> choices;
};

/// Describes the buckets of a module whose residencies are decided, in the
/// module's order.
std::vector<BucketFacts> describeBuckets(mlir::ModuleOp module,
                                         const CostModel &model);

/// Explains in a sentence why a bucket has its residency: the role of
/// `strategy`, and the cost of each alternative.
std::string explain(const BucketFacts &bucket, llvm::StringRef strategy);

} // namespace fcdp
