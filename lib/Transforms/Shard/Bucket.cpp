// SPDX-License-Identifier: Apache-2.0

#include "MergingRemark.h"
#include "Verify/VerifyPhase.h"
#include "fcdp/Planning/Layout/BucketBuilding.h"
#include "fcdp/Planning/Layout/ShardStates.h"
#include "fcdp/Transforms/Options/LayoutSpec.h"
#include "fcdp/Transforms/Options/PrecisionSpec.h"
#include "fcdp/Transforms/Options/Strategy.h"
#include "fcdp/Transforms/PipelineOptions.h"

#include "mlir/IR/Builders.h"

namespace fcdp {
#define GEN_PASS_DEF_BUCKETPASS
#include "fcdp/Transforms/Passes.h.inc"
} // namespace fcdp

using namespace mlir;
using namespace fcdp;

namespace {
class BucketPass : public fcdp::impl::BucketPassBase<BucketPass> {
public:
  using BucketPassBase::BucketPassBase;
  void runOnOperation() override;

private:
  LogicalResult readOptions();
  LogicalResult checkInput();

  /// The parsed options.
  BucketOptions asked;
};
} // namespace

/// Checks that all updates have one scale, and that only an accumulate uses
/// each reduced gradient. Otherwise a bucket could not be updated as a whole.
LogicalResult BucketPass::checkInput() {
  ShardUpdateOp first;
  WalkResult result = getOperation()->walk([&](Operation *op) {
    if (auto update = dyn_cast<ShardUpdateOp>(op)) {
      if (!first)
        first = update;
      if (update.getScale() != first.getScale()) {
        InFlightDiagnostic diag =
            op->emitOpError("expected the scale of all other updates");
        diag.attachNote(first.getLoc()) << "this one differs";
        return WalkResult::interrupt();
      }
    } else if (CollectiveOpInterface reduce = asReduction(op)) {
      if (!reduce->hasOneUse() || !isa<AccumulateOp>(*reduce->user_begin())) {
        op->emitOpError("expected one use of its result, by an accumulate");
        return WalkResult::interrupt();
      }
    }
    return WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

LogicalResult BucketPass::readOptions() {
  ModuleOp module = getOperation();
  if (failed(checkOptions(module, bucketBytes)))
    return failure();
  llvm::Expected<LayoutAttr> kind = parseLayout(layout, &getContext());
  if (!kind)
    return module.emitError("layout: ") << toString(kind.takeError());
  asked.layout = *kind;
  llvm::Expected<Type> type = parseMaster(master, &getContext());
  if (!type)
    return module.emitError("master: ") << toString(type.takeError());
  asked.master = *type;
  type = parseReduceType(reduceType, &getContext());
  if (!type)
    return module.emitError("reduce-dtype: ") << toString(type.takeError());
  asked.reduce = *type;
  if (sharding != kAutoStrategy && !symbolizeSharding(sharding))
    return module.emitError("sharding: expected 'world', 'node', 'none' or "
                            "'auto', got '")
           << sharding << "'";
  return success();
}

void BucketPass::runOnOperation() {
  ModuleOp module = getOperation();
  if (failed(requirePhase(module, Phase::sharded)))
    return signalPassFailure();
  if (failed(readOptions()))
    return signalPassFailure();
  if (!module.getOps<BucketOp>().empty())
    return; // the layout is final
  if (failed(checkInput()))
    return signalPassFailure();
  SmallVector<BucketGroup> groups = collectBucketGroups(module, asked);
  size_t before = groups.size();
  // The option is negative if it is not given, so that --fcdp-decide may
  // choose.
  if (failed(
          mergeBucketGroups(module, groups, std::max<int64_t>(bucketBytes, 0))))
    return signalPassFailure();
  Block::iterator symbolsEnd(*module.getOps<func::FuncOp>().begin());
  BucketBuilder builder(module);
  for (BucketGroup &group : groups)
    if (llvm::Error error = builder.add(group, symbolsEnd)) {
      group.members.front().emitError() << toString(std::move(error));
      return signalPassFailure();
    }
  builder.moveFunctions();
  if (sharding == kAutoStrategy)
    setShardingOpen(module, true);
  else
    shardStates(module, *symbolizeSharding(sharding));
  if (openMerging)
    setMergingOpen(module, true);
  if (bucketBytes > 0)
    setBucketBytes(module, bucketBytes);
  remarkOnMerging(module, getArgument(), before);
}
