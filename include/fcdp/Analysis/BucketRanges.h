// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dialects/Fcdp/Fcdp.h"

namespace fcdp {

/// A gather of one parameter or bucket of `unit`, with the bucket that it will
/// be part of.
struct SourceGather {
  AllGatherOp gather;
  mlir::StringAttr unit;
  mlir::Operation *bucket;
};

/// Returns, for each gather, the index of the live range of its bucket's
/// gathered copy, counted from 0 for each bucket. All of `gathers` are in one
/// block, in program order.
///
/// A bucket of one unit has the unit's live ranges, as `--fcdp-shard` found
/// them. A bucket of several units joins the n-th ranges of its units into one,
/// which begins with the first of them and ends with the last. So the bucket is
/// gathered as often as the unit that is used most often. Ranges are also
/// joined if they overlap, or if no unit outside of the bucket is used between
/// them.
llvm::DenseMap<mlir::Operation *, int64_t>
findBucketRanges(llvm::ArrayRef<SourceGather> gathers);

} // namespace fcdp
