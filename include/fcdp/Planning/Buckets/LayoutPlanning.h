// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/Error.h"

#include <cstdint>

namespace fcdp {

/// Tensors to be placed in one flat buffer of equal shards, one per device. The
/// problem has no IR; all sizes and places are in elements.
struct LayoutProblem {
  struct Tensor {
    int64_t elements;
    /// Elements [i block, (i + 1) block) of the tensor are on one device; the
    /// last block may be shorter.
    int64_t block = 1;
  };
  /// The tensors in the order of their places in the buffer.
  llvm::SmallVector<Tensor> tensors;
  int64_t devices = 1;
  /// Every tensor starts at a multiple of it.
  int64_t alignment = 1;
  /// A shard is a multiple of it. Is a multiple of `alignment`.
  int64_t shardAlignment = 1;

  /// Fails on negative sizes, on numbers that must be positive and are not, on
  /// a shard's alignment that is no multiple of the tensors', and on 2^60
  /// elements or more.
  llvm::Error check() const;
};

struct LayoutSolution {
  /// The first element of each tensor.
  llvm::SmallVector<int64_t> offsets;
  /// The buffer has this many elements per device.
  int64_t shardElements = 0;

  /// Fails if tensors are misaligned, out of order, overlap or end after the
  /// last shard, or if a shard begins inside a block.
  llvm::Error verify(const LayoutProblem &problem) const;
};

/// The planning of veScale-FSDP (arXiv 2602.22437) with the tensors' order
/// kept. Shards of ascending size are tried, and for each every tensor goes to
/// its first possible place, which is then the best: what its dynamic programme
/// finds. Only sizes that leastShard's third condition allows are tried, so the
/// first that fits is the least. After a million tensors in vain it is the
/// paper's binary search over multiples of growing least common multiples of
/// block sizes, which may miss the least. Requires check().
LayoutSolution planLayout(const LayoutProblem &problem);

/// No layout with the tensors' order has smaller shards. A shard is
/// 1. large enough for all tensors on all devices,
/// 2. large enough for each block,
/// 3. a multiple of the block of every tensor that is longer than two shards:
///    two shards begin inside it, both with a block.
/// Requires check().
int64_t leastShard(const LayoutProblem &problem);

} // namespace fcdp
