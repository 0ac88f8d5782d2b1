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
  /// Where a gathered copy waits for its next use in a micro-batch, and for the
  /// next micro-batch (if frozen: step).
  Residency residency, carry;
  /// Where gradients are summed over micro-batches.
  Accumulation accumulation;
  /// Over which ranks states are cut; the layout, which --fcdp-bucket fixes.
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
