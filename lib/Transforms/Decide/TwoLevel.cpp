// SPDX-License-Identifier: Apache-2.0

#include "Verify/VerifyPhase.h"

#include "mlir/IR/Builders.h"

namespace fcdp {
#define GEN_PASS_DEF_TWOLEVELPASS
#include "fcdp/Transforms/Passes.h.inc"
} // namespace fcdp

using namespace mlir;
using namespace fcdp;

namespace {
class TwoLevelPass : public fcdp::impl::TwoLevelPassBase<TwoLevelPass> {
public:
  void runOnOperation() override;
};
} // namespace

/// Returns the axes of a collective over the world that join more than one
/// rank.
template <typename OpTy>
static SmallVector<Axis> getWorkingAxes(OpTy op, MeshOp mesh) {
  SmallVector<Axis> axes;
  for (AxisAttr axis : op.getAxes().template getAsRange<AxisAttr>())
    if (mesh.getSize(axis.getValue()) > 1)
      axes.push_back(axis.getValue());
  return axes;
}

static void splitGather(AllGatherOp gather, MeshOp mesh) {
  OpBuilder builder(gather);
  Value value = gather.getInput();
  for (Axis axis : getWorkingAxes(gather, mesh)) {
    auto type = cast<RankedTensorType>(value.getType());
    value = AllGatherOp::create(
        builder, gather.getLoc(),
        RankedTensorType::get({type.getNumElements() * mesh.getSize(axis)},
                              type.getElementType()),
        value, gather.getSourceAttr(), gather.getMeshAttr(),
        oneAxis(builder.getContext(), axis), gather.getRangeAttr());
  }
  gather.replaceAllUsesWith(value);
  gather.erase();
}

static void splitReduction(ReduceScatterOp reduce, MeshOp mesh) {
  OpBuilder builder(reduce);
  SmallVector<Axis> axes = getWorkingAxes(reduce, mesh);
  if (axes.empty())
    axes.push_back(Axis::local);
  Value value = reduce.getInput();
  for (Axis axis : llvm::reverse(axes)) {
    auto type = cast<RankedTensorType>(value.getType());
    bool last = axis == axes.front();
    Type element = last ? cast<RankedTensorType>(reduce.getResult().getType())
                              .getElementType()
                        : type.getElementType();
    value = ReduceScatterOp::create(
        builder, reduce.getLoc(),
        RankedTensorType::get({type.getNumElements() / mesh.getSize(axis)},
                              element),
        value, reduce.getSourceAttr(), reduce.getMeshAttr(),
        oneAxis(builder.getContext(), axis));
  }
  reduce.replaceAllUsesWith(value);
  reduce.erase();
}

void TwoLevelPass::runOnOperation() {
  ModuleOp module = getOperation();
  if (failed(requirePhase(module, Phase::sharded)))
    return signalPassFailure();
  MeshOp mesh = getMesh(module);
  if (module.getOps<BucketOp>().empty() !=
      module.getOps<ParameterOp>().empty()) {
    module.emitError("expected buckets; run --fcdp-bucket first");
    return signalPassFailure();
  }
  SymbolTable symbols(module);
  for (auto function : module.getOps<func::FuncOp>()) {
    for (auto gather :
         llvm::make_early_inc_range(function.getOps<AllGatherOp>()))
      if (gather.getAxes().size() == 2 && !staysWhole(gather, symbols, mesh))
        splitGather(gather, mesh);
    for (auto reduce :
         llvm::make_early_inc_range(function.getOps<ReduceScatterOp>()))
      if (reduce.getAxes().size() == 2 && !staysWhole(reduce, symbols, mesh))
        splitReduction(reduce, mesh);
  }
}
