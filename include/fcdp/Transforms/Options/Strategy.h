// SPDX-License-Identifier: Apache-2.0
//
// Strategies are presets of the decisions that --fcdp-decide writes.
#pragma once

#include "dialects/Fcdp/Fcdp.h"
#include "llvm/Support/Error.h"

namespace fcdp {

/// The strategy that is no preset: decisions by cost.
inline constexpr llvm::StringLiteral kAutoStrategy = "auto";

struct Strategy {
  /// The place of a gathered copy until its next use in a micro-batch, and
  /// until the next micro-batch (or, if frozen, the next step).
  Residency residency, carry;
  /// The form in which gradients are accumulated over micro-batches.
  Accumulation accumulation;
  /// The ranks over which states are sharded: a part of the layout, which
  /// --fcdp-bucket fixes.
  Sharding sharding = Sharding::world;
  /// Whether collectives are flat, where no slice of a node is needed.
  Collectives collectives = Collectives::two_level;
};

/// `zero1`, `zero2`, `zero3`, `hpz` (ZeRO++, arXiv 2306.10209), `fcdp` (arXiv
/// 2602.06499), `ddp`, `hsdp` (FSDP's HYBRID_SHARD, arXiv 2304.11277) or `mics`
/// (arXiv 2205.00119) with a node as its group. The error lists them.
llvm::Expected<Strategy> parseStrategy(llvm::StringRef name);

/// Writes on `bucket` what is not given there, as far as its sharding can have
/// it. A given residency also holds between micro-batches.
void applyStrategy(BucketOp bucket, const Strategy &strategy);

/// `sharded`, `node`, `node_host` or `full`. The error lists them.
llvm::Expected<Accumulation> parseAccumulation(llvm::StringRef name);

/// `two-level`, `flat` or `auto`, which is none: to be chosen by cost. The
/// error lists them.
llvm::Expected<std::optional<Collectives>>
parseCollectives(llvm::StringRef name);

} // namespace fcdp
