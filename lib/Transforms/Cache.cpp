// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Transforms/Passes.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"

namespace fcdp {
#define GEN_PASS_DEF_CACHEPASS
#include "fcdp/Transforms/Passes.h.inc"
} // namespace fcdp

using namespace mlir;
using namespace fcdp;

namespace {
class CachePass : public fcdp::impl::CachePassBase<CachePass> {
public:
  void runOnOperation() override;

private:
  void cacheInHost(BucketOp bucket);
  void keep(BucketOp bucket, Axis axis);
  SmallVector<AllGatherOp> findGathers(func::FuncOp function, BucketOp bucket,
                                       Axis axis);
  StateOp makeCache(BucketOp bucket);

  MeshOp mesh;
  /// By role; null for roles that this family lacks.
  func::FuncOp functions[6];
};
} // namespace

static bool isMicrobatch(Role role) {
  return role != Role::init && role != Role::update;
}

/// The gathers of `bucket` over `axis` alone, in program order.
SmallVector<AllGatherOp> CachePass::findGathers(func::FuncOp function,
                                                BucketOp bucket, Axis axis) {
  SmallVector<AllGatherOp> gathers;
  for (auto gather : function.getOps<AllGatherOp>())
    if (gather.getSource() == bucket.getSymName() &&
        gather.getAxes().size() == 1 &&
        cast<AxisAttr>(gather.getAxes()[0]).getValue() == axis)
      gathers.push_back(gather);
  return gathers;
}

/// Erases `op` and whatever fed only it.
static void eraseWithInputs(Operation *op) {
  SmallVector<Operation *> inputs;
  for (Value operand : op->getOperands())
    if (Operation *producer = operand.getDefiningOp())
      inputs.push_back(producer);
  op->erase();
  for (Operation *input : inputs)
    if (input->use_empty())
      eraseWithInputs(input);
}

static void replaceByLoad(AllGatherOp gather, StateOp cache) {
  OpBuilder builder(gather);
  auto load = CacheLoadOp::create(
      builder, gather.getLoc(), gather.getResult().getType(),
      cache.getSymName(), StreamAttr(), BufferAttr());
  gather.replaceAllUsesWith(load.getResult());
  eraseWithInputs(gather);
}

static void storeBehind(AllGatherOp gather, StateOp cache) {
  OpBuilder builder(gather);
  builder.setInsertionPointAfter(gather);
  CacheStoreOp::create(builder, gather.getLoc(), gather.getResult(),
                       cache.getSymName(), StreamAttr());
}

StateOp CachePass::makeCache(BucketOp bucket) {
  OpBuilder builder(bucket);
  builder.setInsertionPointAfter(bucket);
  int64_t elements = bucket.getElements() / mesh.getLocal();
  return StateOp::create(
      builder, bucket.getLoc(), (bucket.getSymName() + ".cache").str(),
      StateRole::cache, bucket.getSymName(), Arena::host,
      RankedTensorType::get({elements}, bucket.getWire()), BufferAttr());
}

/// Fills the cache of a frozen bucket in @init, by a copy of `gather`.
static void fillInInit(AllGatherOp gather, StateOp cache, func::FuncOp init) {
  OpBuilder builder(init.front().getTerminator());
  IRMapping mapping;
  SmallVector<Operation *> chain{gather};
  while (chain.back()->getNumOperands() == 1)
    chain.push_back(chain.back()->getOperand(0).getDefiningOp());
  Operation *last = nullptr;
  for (Operation *op : llvm::reverse(chain))
    last = builder.clone(*op, mapping);
  storeBehind(cast<AllGatherOp>(last), cache);
}

void CachePass::cacheInHost(BucketOp bucket) {
  SmallVector<SmallVector<AllGatherOp>> gathers;
  size_t count = 0;
  for (func::FuncOp function : functions) {
    gathers.push_back(function ? findGathers(function, bucket, Axis::node)
                               : SmallVector<AllGatherOp>());
    count += gathers.back().size();
  }
  // Frozen, a bucket is used again in the next step; trained, only within one.
  if (count == 0 || (bucket.getTrainable() && count == 1))
    return;
  StateOp cache = makeCache(bucket);
  bool filled = false;
  for (auto [index, ofFunction] : llvm::enumerate(gathers)) {
    if (!isMicrobatch(static_cast<Role>(index)))
      continue;
    for (AllGatherOp gather : ofFunction) {
      if (filled) {
        replaceByLoad(gather, cache);
        continue;
      }
      filled = true;
      if (bucket.getTrainable()) {
        storeBehind(gather, cache);
        continue;
      }
      fillInInit(gather, cache, functions[static_cast<size_t>(Role::init)]);
      replaceByLoad(gather, cache);
    }
  }
}

/// Later gathers of a function give the result of its first.
void CachePass::keep(BucketOp bucket, Axis axis) {
  for (func::FuncOp function : functions) {
    if (!function)
      continue;
    SmallVector<AllGatherOp> gathers = findGathers(function, bucket, axis);
    for (AllGatherOp later : ArrayRef(gathers).drop_front(!gathers.empty())) {
      later.replaceAllUsesWith(gathers.front().getResult());
      eraseWithInputs(later);
    }
  }
}

void CachePass::runOnOperation() {
  ModuleOp module = getOperation();
  mesh = getMesh(module);
  if (!mesh || getPhase(module) != Phase::sharded) {
    module.emitError("expected a module in phase 'sharded' with a mesh");
    return signalPassFailure();
  }
  std::fill(std::begin(functions), std::end(functions), func::FuncOp());
  for (auto function : module.getOps<func::FuncOp>())
    if (auto role = function->getAttrOfType<RoleAttr>(kRoleAttr))
      functions[static_cast<size_t>(role.getValue())] = function;
  for (auto state : module.getOps<StateOp>())
    if (state.getRole() == StateRole::cache)
      return; // done before
  // The whole is the result of the last axis that has several ranks.
  Axis lastAxis = mesh.getLocal() > 1 ? Axis::local : Axis::node;
  for (auto bucket : llvm::to_vector(module.getOps<BucketOp>())) {
    if (!bucket.getResidency()) {
      bucket.emitError("expected a residency; run --fcdp-decide first");
      return signalPassFailure();
    }
    switch (*bucket.getResidency()) {
    case Residency::drop:
      break;
    case Residency::host:
      cacheInHost(bucket);
      break;
    case Residency::node:
      keep(bucket, Axis::node);
      break;
    case Residency::full:
      keep(bucket, lastAxis);
      break;
    }
  }
}
