// SPDX-License-Identifier: Apache-2.0

#include "Verify/VerifyPhase.h"
#include "dialects/Fcdp/Wires.h"

namespace fcdp {
#define GEN_PASS_DEF_CODEWIRESPASS
#include "fcdp/Transforms/Passes.h.inc"
} // namespace fcdp

using namespace mlir;
using namespace fcdp;

namespace {
class CodeWiresPass : public fcdp::impl::CodeWiresPassBase<CodeWiresPass> {
public:
  void runOnOperation() override;
};
} // namespace

/// Returns the state in host memory that the result of `gather` is stored to,
/// or null.
static StateOp findCache(AllGatherOp gather, SymbolTable &symbols) {
  for (Operation *user : gather->getUsers())
    if (auto store = dyn_cast<CacheStoreOp>(user)) {
      auto state = symbols.lookup<StateOp>(store.getTargetAttr().getAttr());
      if (state && state.getRole() == StateRole::cache)
        return state;
    }
  return {};
}

static bool isBetweenNodes(CollectiveOpInterface collective) {
  return collective.isOverAxis(Axis::node) &&
         !collective.isOverAxis(Axis::local);
}

static void codeGather(AllGatherOp gather, SymbolTable &symbols) {
  auto bucket = symbols.lookup<BucketOp>(gather.getSourceAttr().getAttr());
  if (!bucket || bucket.getGatherWire() != Wire::delta ||
      gather.isOfGradient() || !isBetweenNodes(gather))
    return;
  if (StateOp cache = findCache(gather, symbols))
    gather.setDelta(cache.getSymName());
}

static StateOp findOrMakeResidual(BucketOp bucket, SymbolTable &symbols) {
  auto module = bucket->getParentOfType<ModuleOp>();
  for (auto state : module.getOps<StateOp>())
    if (state.getRole() == StateRole::residual &&
        state.getBucketAttr().getAttr() == bucket.getSymNameAttr())
      return state;
  StateOp state =
      createState(bucket, StateRole::residual,
                  getStateType(bucket, StateRole::residual, getMesh(module)));
  symbols.insert(state, std::next(bucket->getIterator()));
  return state;
}

static void codeReduction(ReduceScatterOp reduce, SymbolTable &symbols) {
  auto bucket = symbols.lookup<BucketOp>(reduce.getSourceAttr().getAttr());
  if (!bucket || !isBetweenNodes(reduce))
    return;
  std::optional<Wire> wire = bucket.getReduceWire();
  if (!wire || *wire == Wire::raw)
    return;
  reduce.setCode(*wire);
  if (isQuantized(wire))
    reduce.setResidual(findOrMakeResidual(bucket, symbols).getSymName());
}

void CodeWiresPass::runOnOperation() {
  ModuleOp module = getOperation();
  if (failed(requirePhase(module, Phase::sharded)))
    return signalPassFailure();
  SymbolTable symbols(module);
  for (auto function : module.getOps<func::FuncOp>()) {
    for (auto gather : function.getOps<AllGatherOp>())
      codeGather(gather, symbols);
    for (auto reduce : function.getOps<ReduceScatterOp>())
      codeReduction(reduce, symbols);
  }
}
