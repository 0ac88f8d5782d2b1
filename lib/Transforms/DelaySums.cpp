// SPDX-License-Identifier: Apache-2.0

#include "VerifyPhase.h"

#include "mlir/IR/Builders.h"

namespace fcdp {
#define GEN_PASS_DEF_DELAYSUMSPASS
#include "fcdp/Transforms/Passes.h.inc"
} // namespace fcdp

using namespace mlir;
using namespace fcdp;

namespace {
class DelaySumsPass : public fcdp::impl::DelaySumsPassBase<DelaySumsPass> {
public:
  using DelaySumsPassBase::DelaySumsPassBase;
  void runOnOperation() override;
};
} // namespace

namespace {
struct Packing {
  PackOp pack;
  /// Which unit's gradients it packs, counted in program order: a unit may have
  /// several buckets.
  size_t index;
};
} // namespace

static SmallVector<Packing> findPackings(Block &block,
                                         const SymbolTable &symbols) {
  SmallVector<Packing> packings;
  StringAttr previous;
  for (auto pack : block.getOps<PackOp>()) {
    StringAttr unit = symbols.lookup<BucketOp>(pack.getBucket()).getUnitAttr();
    size_t index = packings.empty() ? 0 : packings.back().index;
    packings.push_back({pack, index + (previous && unit != previous)});
    previous = unit;
  }
  return packings;
}

/// Where the sum of `reduction` is noted; null if nothing was packed for it.
static Operation *findPlace(Operation *reduction, ArrayRef<Packing> packings,
                            size_t inFlight) {
  const Packing *next = llvm::partition_point(
      packings, [&](const Packing &packing) {
        return PackOp(packing.pack)->isBeforeInBlock(reduction);
      });
  if (next == packings.begin())
    return nullptr;
  size_t index = std::prev(next)->index + inFlight;
  next = llvm::partition_point(packings, [&](const Packing &packing) {
    return packing.index < index;
  });
  return next == packings.end() ? reduction->getBlock()->getTerminator()
                                : PackOp(next->pack).getOperation();
}

static void delaySums(Block &block, size_t inFlight,
                      const SymbolTable &symbols) {
  SmallVector<Packing> packings = findPackings(block, symbols);
  for (AccumulateOp sum : llvm::to_vector(block.getOps<AccumulateOp>())) {
    auto reduction = sum.getValue().getDefiningOp<ReduceScatterOp>();
    if (!reduction)
      continue; // noted where it is made
    Operation *place = findPlace(reduction, packings, inFlight);
    if (place && sum->isBeforeInBlock(place))
      sum->moveBefore(place);
  }
}

void DelaySumsPass::runOnOperation() {
  ModuleOp module = getOperation();
  if (failed(requirePhase(module, Phase::sharded)))
    return signalPassFailure();
  if (inFlight < 1) {
    module.emitError("in-flight: expected 1 or more, got ")
        << inFlight.getValue();
    return signalPassFailure();
  }
  if (module->hasAttr(kReductionsAttr))
    return;
  SymbolTable symbols(module);
  for (auto function : module.getOps<func::FuncOp>())
    delaySums(function.front(), inFlight, symbols);
  module->setAttr(kReductionsAttr,
                  Builder(&getContext()).getI64IntegerAttr(inFlight));
}
