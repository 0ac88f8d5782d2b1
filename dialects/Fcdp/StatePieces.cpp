// SPDX-License-Identifier: Apache-2.0

#include "dialects/Fcdp/StatePieces.h"

#include "dialects/Fcdp/StateRoles.h"

#include <numeric>

using namespace mlir;
using namespace fcdp;

SmallVector<StateRole>
fcdp::getUpdatedStates(BucketOp bucket, OptimizerAttrInterface optimizer) {
  SmallVector<StateRole> roles = optimizer.getStates();
  if (bucket.getMaster())
    roles.push_back(StateRole::master);
  return roles;
}

static MeshOp getMeshOf(BucketOp bucket) {
  return getMesh(bucket->getParentOfType<ModuleOp>());
}

int64_t fcdp::countShardElements(BucketOp bucket) {
  return getStateType(bucket, StateRole::shard, getMeshOf(bucket))
      .getNumElements();
}

bool fcdp::areStreamed(BucketOp bucket) {
  return bucket.getStates().value_or(Arena::device) != Arena::device;
}

int64_t fcdp::getPieceMultiple(BucketOp bucket,
                               OptimizerAttrInterface optimizer) {
  int64_t multiple = kStateBlock;
  if (bucket.getStates() != Arena::file)
    return multiple;
  for (StateRole role : getUpdatedStates(bucket, optimizer)) {
    StateShape shape = getRecord(role).shape;
    if (shape != StateShape::element && shape != StateShape::block)
      continue; // it is not cut
    int64_t width = elementBytes(
        getStateType(bucket, role, getMeshOf(bucket)).getElementType());
    int64_t bytes = shape == StateShape::element ? width * kStateBlock : width;
    multiple = std::lcm(multiple,
                        kFileBlock / std::gcd(kFileBlock, bytes) * kStateBlock);
  }
  return multiple;
}

std::optional<int64_t> fcdp::getPieceUnit(OptimizerAttrInterface optimizer) {
  auto layout = cast_or_null<LayoutAttr>(optimizer.getNeededLayout());
  if (!layout)
    return 1;
  if (layout.getKind() == LayoutKind::blocks)
    return layout.getRows();
  return std::nullopt;
}

std::optional<PieceRange> fcdp::getStateRange(BucketOp bucket, StateRole role,
                                              PieceRange ofShard) {
  StateShape shape = getRecord(role).shape;
  if (shape == StateShape::element)
    return ofShard;
  int64_t all = countShardElements(bucket);
  bool isWhole = ofShard.begin == 0 && ofShard.end == all;
  if (isWhole)
    return PieceRange{
        0, getStateType(bucket, role, getMeshOf(bucket)).getNumElements()};
  bool isCut = shape == StateShape::block && ofShard.begin % kStateBlock == 0 &&
               ofShard.end % kStateBlock == 0;
  if (!isCut)
    return std::nullopt;
  return PieceRange{ofShard.begin / kStateBlock, ofShard.end / kStateBlock};
}

LogicalResult fcdp::verifyPiece(ShardUpdateOp update, BucketOp bucket) {
  if (!update.getBegin() && !update.getEnd()) {
    if (!update.getStates().empty()) // C4
      return update.emitOpError("expected no states without a piece, got ")
             << update.getStates().size();
    return success();
  }
  if (!update.getBegin() || !update.getEnd() || !bucket ||
      !areStreamed(bucket)) // C3
    return update.emitOpError("expected a piece to have a begin and an end, "
                              "and a bucket with 'states host' or 'file'");
  PieceRange piece{static_cast<int64_t>(*update.getBegin()),
                   static_cast<int64_t>(*update.getEnd())};
  int64_t all = countShardElements(bucket);
  if (piece.begin < 0 || piece.begin >= piece.end || piece.end > all) // C3
    return update.emitOpError("expected a piece of the ")
           << all << " elements of the shard, got " << piece.begin << " to "
           << piece.end;
  std::optional<int64_t> unit = getPieceUnit(update.getSettings());
  bool isWhole = piece.begin == 0 && piece.end == all;
  if (!isWhole &&
      (!unit || piece.begin % *unit != 0 || piece.end % *unit != 0)) { // C3
    InFlightDiagnostic diag = update.emitOpError("expected ");
    if (unit)
      diag << "a piece of whole blocks of " << *unit << " elements";
    else
      diag << "the whole shard";
    return diag << ", which '" << update.getSettings().getName()
                << "' needs, got elements " << piece.begin << " to "
                << piece.end << " of " << all;
  }
  int64_t multiple = getPieceMultiple(bucket, update.getSettings());
  if (bucket.getStates() == Arena::file &&
      (piece.begin % multiple != 0 ||
       (piece.end % multiple != 0 && piece.end != all))) // C3
    return update.emitOpError("expected a piece of whole blocks in a file, "
                              "multiples of ")
           << multiple << " elements, got " << piece.begin << " to "
           << piece.end;
  SmallVector<StateRole> roles = getUpdatedStates(bucket, update.getSettings());
  if (roles.size() != update.getStates().size()) // C4
    return update.emitOpError("expected ")
           << roles.size() << " states, got " << update.getStates().size();
  MeshOp mesh = getMeshOf(bucket);
  for (auto [role, state] : llvm::zip_equal(roles, update.getStates())) {
    std::optional<PieceRange> range = getStateRange(bucket, role, piece);
    RankedTensorType whole = getStateType(bucket, role, mesh);
    RankedTensorType expected =
        range ? whole.clone({range->end - range->begin}) : whole;
    if (state.getType() != expected) // C4
      return update.emitOpError("expected a piece of '")
             << stringifyStateRole(role) << "' of type " << expected << ", got "
             << state.getType();
  }
  return success();
}

/// Verifies C1 and C2 of a load or a store.
static LogicalResult verifyStateCopy(Operation *op, FlatSymbolRefAttr name,
                                     int64_t begin, RankedTensorType type,
                                     SymbolTableCollection &symbols) {
  auto state = symbols.lookupNearestSymbolFrom<StateOp>(op, name);
  if (!state || !isOptimizerState(state.getRole()) ||
      state.getArena() == Arena::device) // C1
    return op->emitOpError("expected a state in host memory or a file that the "
                           "optimizer updates, got ")
           << name;
  RankedTensorType whole = state.getTensorType();
  if (type.getElementType() != whole.getElementType() ||
      begin > whole.getNumElements() ||
      type.getNumElements() > whole.getNumElements() - begin) // C2
    return op->emitOpError("expected a piece of ")
           << whole << ", got " << type << " at " << begin;
  return success();
}

LogicalResult StateLoadOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyStateCopy(*this, getSourceAttr(), getBegin(),
                         getResult().getType(), symbols);
}

LogicalResult StateStoreOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyStateCopy(*this, getTargetAttr(), getBegin(),
                         getValue().getType(), symbols);
}
