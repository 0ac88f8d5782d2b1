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
  Operation *pack;
  /// Which unit's gradients it packs, counted in program order: a unit may have
  /// several buckets.
  size_t unit;
};

/// Plans on the order that there is, for asking a block for its order after
/// each move takes time in its length.
class BlockSums {
public:
  BlockSums(Block &block, const SymbolTable &symbols);
  void delay(size_t inFlight);

private:
  Operation *findPlace(Operation *reduction, size_t inFlight) const;

  Block &block;
  llvm::DenseMap<Operation *, size_t> positions;
  /// In order.
  SmallVector<Packing> packings;
  /// Sums that are read here, so that they have to be there.
  llvm::DenseSet<StringRef> readSums;
};
} // namespace

BlockSums::BlockSums(Block &block, const SymbolTable &symbols) : block(block) {
  StringAttr previous;
  for (Operation &op : block) {
    positions.try_emplace(&op, positions.size());
    if (auto read = dyn_cast<ReadStateOp>(op))
      readSums.insert(read.getSource());
    auto pack = dyn_cast<PackOp>(op);
    if (!pack)
      continue;
    StringAttr unit = symbols.lookup<BucketOp>(pack.getBucket()).getUnitAttr();
    size_t index = packings.empty() ? 0 : packings.back().unit;
    packings.push_back({pack, index + (previous && unit != previous)});
    previous = unit;
  }
}

/// Where the sum of `reduction` is noted; null if nothing was packed for it.
Operation *BlockSums::findPlace(Operation *reduction, size_t inFlight) const {
  const Packing *next =
      llvm::partition_point(packings, [&](const Packing &packing) {
        return positions.lookup(packing.pack) < positions.lookup(reduction);
      });
  if (next == packings.begin())
    return nullptr;
  size_t unit = std::prev(next)->unit + inFlight;
  next = llvm::partition_point(
      packings, [&](const Packing &packing) { return packing.unit < unit; });
  return next == packings.end() ? block.getTerminator() : next->pack;
}

void BlockSums::delay(size_t inFlight) {
  for (AccumulateOp sum : llvm::to_vector(block.getOps<AccumulateOp>())) {
    Operation *reduction = sum.getValue().getDefiningOp();
    if (!isa_and_present<ReduceScatterOp, AllGatherOp>(reduction) ||
        readSums.contains(sum.getTarget()))
      continue; // noted where it is made, or needed
    Operation *place = findPlace(reduction, inFlight);
    if (place && positions.lookup(sum) < positions.lookup(place))
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
  if (auto decided = module->getAttrOfType<IntegerAttr>(kReductionsAttr))
    inFlight = decided.getInt();
  SymbolTable symbols(module);
  for (auto function : module.getOps<func::FuncOp>())
    BlockSums(function.front(), symbols).delay(inFlight);
  module->setAttr(kReductionsAttr,
                  Builder(&getContext()).getI64IntegerAttr(inFlight));
}
