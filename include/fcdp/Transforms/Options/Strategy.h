// SPDX-License-Identifier: Apache-2.0
//
// Strategies are presets of the decisions that --fcdp-decide writes.
#pragma once

#include "dialects/Fcdp/Fcdp.h"
#include "llvm/Support/Error.h"

namespace fcdp {

/// The strategy that is no preset, but decides by cost.
inline constexpr llvm::StringLiteral kAutoStrategy = "auto";

struct Strategy {
  /// The place of a gathered copy until its next use in a micro-batch, and
  /// until the next micro-batch (or, if frozen, the next step).
  Residency residency, carry;
  /// The form in which gradients are accumulated over micro-batches.
  Accumulation accumulation;
  /// The ranks over which states are sharded. It is a part of the layout, which
  /// --fcdp-bucket fixes.
  Sharding sharding = Sharding::world;
  /// Whether collectives are flat where no node slice is needed.
  Collectives collectives = Collectives::two_level;
};

/// Parses the name of a preset. Errors list them.
llvm::Expected<Strategy> parseStrategy(llvm::StringRef name);

/// Sets the decisions that `bucket` does not give, within the limits of its
/// sharding. A given residency also holds between micro-batches.
void applyStrategy(BucketOp bucket, const Strategy &strategy);

/// Parses `sharded`, `node`, `node_host` or `full`. Errors list them.
llvm::Expected<Accumulation> parseAccumulation(llvm::StringRef name);

/// Parses `two-level`, `flat` or `auto`. The result for `auto` is none, which
/// means a choice by cost. Errors list them.
llvm::Expected<std::optional<Collectives>>
parseCollectives(llvm::StringRef name);

} // namespace fcdp
