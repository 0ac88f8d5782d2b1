// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dialects/Fcdp/Fcdp.h"

namespace fcdp {

/// A gather of one parameter or bucket of `unit`, by the bucket that it is to
/// be gathered with.
struct SourceGather {
  AllGatherOp gather;
  mlir::StringAttr unit;
  mlir::Operation *bucket;
};

/// The live range of its bucket's gathered copy that each gather is in, by
/// bucket from 0; `gathers` are all of one block, in program order.
///
/// A bucket of one unit has the unit's live ranges, as `--fcdp-shard` found
/// them. In one of several units, n-th ranges are one: it begins with the first
/// of them and lasts until all have ended. So it is gathered no more often than
/// the unit that is used most often, whatever runs between its units. Ranges
/// that overlap, or with no use of a unit outside of the bucket between them,
/// are one, too.
llvm::DenseMap<mlir::Operation *, int64_t>
findBucketRanges(llvm::ArrayRef<SourceGather> gathers);

} // namespace fcdp
