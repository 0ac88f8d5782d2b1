// SPDX-License-Identifier: Apache-2.0

#include "VerifyPhase.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"

#include <array>

namespace fcdp {
#define GEN_PASS_DEF_CACHEPASS
#include "fcdp/Transforms/Passes.h.inc"
} // namespace fcdp

using namespace mlir;
using namespace fcdp;

namespace {
constexpr size_t kNumRoles = 6;
size_t indexOf(Role role) { return static_cast<size_t>(role); }

class CachePass : public fcdp::impl::CachePassBase<CachePass> {
public:
  void runOnOperation() override;

private:
  /// By role, in program order.
  using Gathers = std::array<SmallVector<AllGatherOp>, kNumRoles>;

  void collect(SymbolTable &table);
  Gathers &gathersOf(BucketOp bucket, Axis axis) {
    return gathers[{bucket.getSymNameAttr(), static_cast<unsigned>(axis)}];
  }
  void cacheInHost(BucketOp bucket, SymbolTable &table);
  void keep(BucketOp bucket, Axis axis);
  StateOp makeCache(BucketOp bucket, SymbolTable &table);

  MeshOp mesh;
  func::FuncOp init;
  /// The gathers of each bucket over one axis.
  llvm::DenseMap<std::pair<StringAttr, unsigned>, Gathers> gathers;
  /// Buckets that have a cache already.
  llvm::DenseSet<StringAttr> cached;
};
} // namespace

static bool isMicrobatch(Role role) {
  return role != Role::init && role != Role::update;
}

/// Finds what the buckets are to be served from, and with.
void CachePass::collect(SymbolTable &table) {
  mesh = getMesh(getOperation());
  init = table.lookup<func::FuncOp>(stringifyRole(Role::init));
  gathers.clear();
  cached.clear();
  for (auto state : getOperation().getOps<StateOp>())
    if (state.getRole() == StateRole::cache)
      cached.insert(state.getBucketAttr().getAttr());
  for (auto function : getOperation().getOps<func::FuncOp>()) {
    Role role = function->getAttrOfType<RoleAttr>(kRoleAttr).getValue();
    for (auto gather : function.getOps<AllGatherOp>()) {
      if (gather.getAxes().size() != 1)
        continue;
      Axis axis = cast<AxisAttr>(gather.getAxes()[0]).getValue();
      gathers[{gather.getSourceAttr().getAttr(), static_cast<unsigned>(axis)}]
             [indexOf(role)]
                 .push_back(gather);
    }
  }
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

StateOp CachePass::makeCache(BucketOp bucket, SymbolTable &table) {
  OpBuilder builder(&getContext());
  int64_t elements = bucket.getElements() / mesh.getLocal();
  auto cache = StateOp::create(
      builder, bucket.getLoc(), (bucket.getSymName() + ".cache").str(),
      StateRole::cache, bucket.getSymName(), Arena::host,
      RankedTensorType::get({elements}, bucket.getWire()), BufferAttr());
  table.insert(cache, std::next(Block::iterator(bucket)));
  return cache;
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

void CachePass::cacheInHost(BucketOp bucket, SymbolTable &table) {
  Gathers &ofBucket = gathersOf(bucket, Axis::node);
  size_t count = 0;
  for (auto &ofFunction : ofBucket)
    count += ofFunction.size();
  // Frozen, a bucket is used again in the next step; trained, only within one.
  if (count == 0 || (bucket.getTrainable() && count == 1))
    return;
  StateOp cache = makeCache(bucket, table);
  bool filled = false;
  for (auto [index, ofFunction] : llvm::enumerate(ofBucket)) {
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
      fillInInit(gather, cache, init);
      replaceByLoad(gather, cache);
    }
  }
}

/// Later gathers of a function give the result of its first.
void CachePass::keep(BucketOp bucket, Axis axis) {
  for (auto &ofFunction : gathersOf(bucket, axis))
    for (AllGatherOp later :
         ArrayRef(ofFunction).drop_front(!ofFunction.empty())) {
      later.replaceAllUsesWith(ofFunction.front().getResult());
      eraseWithInputs(later);
    }
}

void CachePass::runOnOperation() {
  ModuleOp module = getOperation();
  if (failed(requirePhase(module, Phase::sharded)))
    return signalPassFailure();
  for (auto bucket : module.getOps<BucketOp>())
    if (!bucket.getResidency()) {
      bucket.emitError("expected a residency; run --fcdp-decide first");
      return signalPassFailure();
    }
  SymbolTable table(module);
  collect(table);
  // The whole is the result of the last axis that has several ranks.
  Axis lastAxis = mesh.getLocal() > 1 ? Axis::local : Axis::node;
  for (auto bucket : llvm::make_early_inc_range(module.getOps<BucketOp>()))
    switch (*bucket.getResidency()) {
    case Residency::drop:
      break;
    case Residency::host:
      if (!cached.contains(bucket.getSymNameAttr()))
        cacheInHost(bucket, table);
      break;
    case Residency::node:
      keep(bucket, Axis::node);
      break;
    case Residency::full:
      keep(bucket, lastAxis);
      break;
    }
}
