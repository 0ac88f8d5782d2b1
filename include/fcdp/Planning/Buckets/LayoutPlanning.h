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
  /// Every tensor starts at a multiple of this.
  int64_t alignment = 1;
  /// The size of a shard is a multiple of this, which is a multiple of
  /// `alignment`.
  int64_t shardAlignment = 1;

  /// Fails on negative sizes, on numbers that must be positive and are not, on
  /// a shard alignment that is no multiple of the tensors' alignment, and on
  /// 2^60 elements or more.
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

/// Returns the layout that the algorithm of veScale-FSDP (arXiv 2602.22437)
/// plans, but keeps the order of the tensors. It tries shards of ascending
/// size, and places every tensor at its first possible place. With a fixed
/// order this is optimal, and equals the result of the paper's dynamic
/// programme. It tries only sizes that meet leastShard's third condition, so
/// the first that fits is the least. After a million failed placements it
/// changes to the paper's binary search over multiples of growing least common
/// multiples of block sizes, which may miss the least size. Requires check().
LayoutSolution planLayout(const LayoutProblem &problem);

/// Returns a lower bound on the shard size of any layout in the tensors' order.
/// A shard is
/// 1. large enough for all tensors on all devices,
/// 2. large enough for each block,
/// 3. a multiple of the block of every tensor that is longer than two shards:
///    two shards begin inside it, both with a block.
/// Requires check().
int64_t leastShard(const LayoutProblem &problem);

} // namespace fcdp
