// SPDX-License-Identifier: Apache-2.0

#include "Verify/VerifyPhase.h"
#include "dialects/Fcdp/StatePieces.h"

#include "mlir/IR/Builders.h"
#include "llvm/Support/MathExtras.h"

namespace fcdp {
#define GEN_PASS_DEF_STREAMSTATESPASS
#include "fcdp/Transforms/Passes.h.inc"
} // namespace fcdp

using namespace mlir;
using namespace fcdp;

namespace {
class StreamStatesPass
    : public fcdp::impl::StreamStatesPassBase<StreamStatesPass> {
public:
  void runOnOperation() override;

private:
  /// A piece of a shard. The loads of its states are made before it is updated.
  struct Piece {
    ShardUpdateOp update; ///< of the whole shard
    BucketOp bucket;
    PieceRange elements;
    SmallVector<Value> windows = {};
  };

  LogicalResult cut(ShardUpdateOp update, BucketOp bucket);
  void load(OpBuilder &builder, Piece &piece);
  void updateOnHost();
  void updateAndStore(OpBuilder &builder, const Piece &piece);
  StateOp getState(BucketOp bucket, StateRole role) {
    return states.lookup({bucket.getSymNameAttr(), role});
  }

  llvm::DenseMap<std::pair<StringAttr, StateRole>, StateOp> states;
  /// Pieces that are streamed, and pieces that are updated on the host.
  std::vector<Piece> pieces, ofHost;
};
} // namespace

/// Divides the shard into pieces of about equal size.
LogicalResult StreamStatesPass::cut(ShardUpdateOp update, BucketOp bucket) {
  int64_t all = countShardElements(bucket), most = all;
  if (std::optional<int64_t> given = bucket.getPiece()) {
    std::optional<int64_t> unit = getPieceUnit(update.getSettings());
    if (!unit && *given < all)
      return bucket.emitOpError("expected a 'piece' of the ")
             << all << " elements of the shard, because '"
             << update.getSettings().getName()
             << "' updates whole parameters, got " << *given;
    most = std::min(*given, all);
  }
  int64_t multiple = getPieceMultiple(bucket, update.getSettings());
  int64_t count = llvm::divideCeil(all, most);
  int64_t each = llvm::alignTo(llvm::divideCeil(all, count), multiple);
  for (int64_t begin = 0; begin < all; begin += each)
    (bucket.getUpdatedOnHost() ? ofHost : pieces)
        .push_back({update, bucket, {begin, std::min(all, begin + each)}});
  return success();
}

void StreamStatesPass::load(OpBuilder &builder, Piece &piece) {
  for (StateRole role :
       getUpdatedStates(piece.bucket, piece.update.getSettings())) {
    StateOp state = getState(piece.bucket, role);
    PieceRange range = *getStateRange(piece.bucket, role, piece.elements);
    piece.windows.push_back(StateLoadOp::create(
        builder, piece.update.getLoc(),
        state.getTensorType().clone({range.end - range.begin}),
        FlatSymbolRefAttr::get(state.getSymNameAttr()),
        builder.getI64IntegerAttr(range.begin), StreamAttr(), BufferAttr()));
  }
}

void StreamStatesPass::updateAndStore(OpBuilder &builder, const Piece &piece) {
  ShardUpdateOp update = piece.update;
  auto made = ShardUpdateOp::create(
      builder, update.getLoc(), update.getTargetAttr(),
      builder.getI64IntegerAttr(piece.elements.begin),
      builder.getI64IntegerAttr(piece.elements.end), piece.windows,
      update.getScaleAttr(), update.getOptimizer());
  made->setDiscardableAttrs(update->getDiscardableAttrDictionary());
  for (auto [role, window] :
       llvm::zip_equal(getUpdatedStates(piece.bucket, update.getSettings()),
                       piece.windows)) {
    PieceRange range = *getStateRange(piece.bucket, role, piece.elements);
    StateStoreOp::create(
        builder, update.getLoc(), window,
        FlatSymbolRefAttr::get(getState(piece.bucket, role).getSymNameAttr()),
        builder.getI64IntegerAttr(range.begin), StreamAttr());
  }
}

static Value storeGradient(OpBuilder &builder, ShardUpdateOp update,
                           BucketOp bucket, PieceRange elements) {
  auto type = RankedTensorType::get({elements.end - elements.begin},
                                    bucket.getStorage());
  return StoreGradientOp::create(
      builder, update.getLoc(), StoredType::get(builder.getContext(), type),
      update.getTargetAttr(), builder.getI64IntegerAttr(elements.begin),
      builder.getI64IntegerAttr(elements.end),
      bucket.getMaster() ? UnitAttr() : builder.getUnitAttr(), StreamAttr(),
      BufferAttr());
}

/// Stores the gradients of the first pieces together, and each other one after
/// the piece whose memory it uses again.
void StreamStatesPass::updateOnHost() {
  SmallVector<Value> gradients;
  auto store = [&](OpBuilder &builder, size_t i) {
    const Piece &piece = ofHost[i];
    gradients.push_back(
        storeGradient(builder, piece.update, piece.bucket, piece.elements));
  };
  for (size_t i = 0; i < ofHost.size(); ++i) {
    const Piece &piece = ofHost[i];
    ShardUpdateOp update = piece.update;
    OpBuilder builder(update);
    if (i == 0)
      while (gradients.size() < std::min(kHostWindows, ofHost.size()))
        store(builder, gradients.size());
    IntegerAttr begin = builder.getI64IntegerAttr(piece.elements.begin);
    auto made = HostUpdateOp::create(
        builder, update.getLoc(), gradients[i].getType(), gradients[i],
        update.getTargetAttr(), begin,
        builder.getI64IntegerAttr(piece.elements.end), update.getScaleAttr(),
        update.getOptimizer(), StreamAttr());
    made->setDiscardableAttrs(update->getDiscardableAttrDictionary());
    LoadShardOp::create(builder, update.getLoc(), made.getUpdated(),
                        update.getTargetAttr(), begin, StreamAttr());
    if (gradients.size() < ofHost.size())
      store(builder, gradients.size());
  }
}

void StreamStatesPass::runOnOperation() {
  ModuleOp module = getOperation();
  if (failed(requirePhase(module, Phase::sharded)))
    return signalPassFailure();
  SymbolTable symbols(module);
  for (auto state : module.getOps<StateOp>()) {
    auto bucket = symbols.lookup<BucketOp>(state.getBucketAttr().getAttr());
    if (isOptimizerState(state.getRole()) && areStreamed(bucket))
      state.setArena(*bucket.getStates());
    states[{bucket.getSymNameAttr(), state.getRole()}] = state;
  }
  pieces.clear();
  ofHost.clear();
  auto function =
      module.lookupSymbol<func::FuncOp>(stringifyRole(Role::update));
  for (auto update : function.getOps<ShardUpdateOp>()) {
    auto bucket = symbols.lookup<BucketOp>(update.getTargetAttr().getAttr());
    if (bucket && areStreamed(bucket) && !update.isOfPiece() &&
        countShardElements(bucket) > 0 &&
        !getUpdatedStates(bucket, update.getSettings()).empty() &&
        failed(cut(update, bucket)))
      return signalPassFailure();
  }
  // The first load does not wait for the norm of the gradients. Each piece is
  // loaded while the one before it is updated.
  for (size_t i = 0; i < pieces.size(); ++i) {
    OpBuilder begin = OpBuilder::atBlockBegin(&function.front());
    OpBuilder builder(pieces[i].update);
    if (i == 0)
      load(begin, pieces[i]);
    if (i + 1 < pieces.size())
      load(builder, pieces[i + 1]);
    updateAndStore(builder, pieces[i]);
  }
  updateOnHost();
  for (std::vector<Piece> *list : {&pieces, &ofHost})
    for (size_t i = 0; i < list->size(); ++i)
      if (i + 1 == list->size() || (*list)[i + 1].update != (*list)[i].update)
        (*list)[i].update.erase();
  states.clear();
  pieces.clear();
}
