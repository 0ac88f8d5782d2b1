// SPDX-License-Identifier: Apache-2.0

#include "MergingRemark.h"

#include "fcdp/Support/Units.h"

#include "mlir/IR/Remarks.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace fcdp;

void fcdp::remarkOnMerging(ModuleOp module, StringRef category, size_t before) {
  size_t after = llvm::range_size(module.getOps<BucketOp>());
  std::optional<int64_t> limit = getBucketBytes(module);
  if (!limit || before == after)
    return;
  remark::passed(module.getLoc(),
                 remark::RemarkOpts::name("merging").category(category))
      << llvm::formatv("merged {0} buckets into {1} of up to {2}", before,
                       after, formatBytes(*limit))
             .str();
}
