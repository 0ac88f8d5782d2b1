// SPDX-License-Identifier: Apache-2.0
//
// The decisions of strategy `auto`.
#pragma once

#include "fcdp/Planning/Residency/ResidencyAnalysis.h"

#include <memory>
#include <optional>
#include <string>

namespace fcdp {

/// The distances of presets: two copies and two reductions at once, as FSDP.
inline constexpr int64_t kDefaultPrefetch = 1, kDefaultReductions = 2;

/// All decisions on a step.
struct StepDecisions {
  /// Greatest bytes of merged buckets, which are made first; 0 merges none.
  int64_t bucketBytes = 0;
  Sharding sharding = Sharding::world;
  /// One entry for each bucket after merging, in the order of the module.
  ResidencySolution residency;
  Accumulation accumulation = Accumulation::sharded;
  /// Distances for all fetches and accumulates. If not set, each has its own.
  std::optional<int64_t> prefetch = kDefaultPrefetch,
                         reductions = kDefaultReductions;
};

/// The choices that the decisions are made from.
struct StepChoices {
  MemoryBudget budget;
  /// Whether buckets may be merged; requires canJoinBuckets.
  bool mayMerge = false;
  /// Greatest bytes of merged buckets that are compared; 0 keeps the buckets as
  /// they are.
  llvm::SmallVector<int64_t> bucketBytes{0};
  /// Shardings to try. `world` does not change the buckets.
  llvm::SmallVector<Sharding> shardings{Sharding::world};
  llvm::SmallVector<Accumulation> accumulations;
  /// The user's decisions, if any.
  std::optional<int64_t> prefetch, reductions;
  std::optional<Collectives> collectives;
  /// The value of --outer; empty without outer steps.
  std::string outer;
  /// The messages between nodes.
  std::shared_ptr<const MessageCosts> messages =
      std::make_shared<MessageCosts>();
};

} // namespace fcdp
