// SPDX-License-Identifier: Apache-2.0
//
// Outer steps, in which nodes train by themselves: their states, and the
// verifiers of their settings, buckets and operations.

#include "dialects/Fcdp/Fcdp.h"
#include "dialects/Fcdp/StateRoles.h"

#include <limits>

using namespace mlir;
using namespace fcdp;

bool fcdp::isOuterState(StateRole role) {
  return getRecord(role).kind == StateKind::outer;
}

bool fcdp::reducesWithinNode(BucketOp bucket) {
  return bucket.getOuter().has_value();
}

bool fcdp::reducesWithinNode(ModuleOp module) {
  return static_cast<bool>(getOuter(module));
}

int64_t fcdp::countReducedRanks(ModuleOp module) {
  MeshOp mesh = getMesh(module);
  return reducesWithinNode(module) ? mesh.getLocal() : mesh.getWorldSize();
}

LogicalResult OuterAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                int64_t every, FloatAttr lr, FloatAttr momentum,
                                bool nesterov, int64_t fragments,
                                bool overlap) {
  bool isEveryInRange =
      every >= 1 && every <= std::numeric_limits<int32_t>::max();
  if (!isEveryInRange || fragments < 1 || fragments > every) // C1
    return emitError()
           << "expected 'every' from 1 to 2^31 - 1, and 'fragments' "
              "from 1 to it, got "
           << every << " and " << fragments;
  if (failed(verifyNumber(emitError, "lr", lr)) ||
      failed(verifyNumber(emitError, "momentum", momentum)))
    return failure();
  if (nesterov && momentum.getValueAsDouble() == 0) // C2
    return emitError() << "'nesterov' needs momentum";
  return success();
}

SmallVector<StateRole> OuterAttr::getStates() const {
  if (getMomentum().getValueAsDouble() == 0)
    return {StateRole::outer};
  return {StateRole::outer, StateRole::outer_momentum};
}

LogicalResult fcdp::verifyNodes(BucketOp bucket) {
  uint64_t fragment = *bucket.getOuter();
  Accumulation accumulation =
      bucket.getAccumulation().value_or(Accumulation::sharded);
  if (static_cast<int64_t>(fragment) >= 0 && bucket.getTrainable() &&
      bucket.getSharding() == Sharding::node &&
      bucket.getCollectives() != Collectives::flat &&
      !sumsSlice(accumulation)) // C15
    return success();
  return bucket.emitOpError(
             "expected 'outer' not to be negative, in a trainable bucket of "
             "sharding 'node' with accumulation 'sharded' or 'full' and "
             "two-level collectives, got ")
         << static_cast<int64_t>(fragment);
}

LogicalResult fcdp::verifyNodes(StateOp state, BucketOp bucket) {
  if (isOuterState(state.getRole()) && !reducesWithinNode(bucket)) // C5
    return state.emitOpError("expected a bucket with 'outer', got ")
           << state.getBucketAttr();
  return success();
}

/// Verifies C1 and C2 of outer_difference and outer_update.
static LogicalResult verifyOuter(Operation *op, FlatSymbolRefAttr name,
                                 RankedTensorType type,
                                 SymbolTableCollection &symbols) {
  auto bucket = symbols.lookupNearestSymbolFrom<BucketOp>(op, name);
  if (!bucket || !bucket.getOuter()) // C1
    return op->emitOpError("expected a bucket with 'outer', got ") << name;
  MeshOp mesh = getMesh(op->getParentOfType<ModuleOp>());
  if (!mesh)
    return op->emitOpError("expected a mesh in the module");
  RankedTensorType outer = getStateType(bucket, StateRole::outer, mesh);
  if (type.getShape() != outer.getShape()) // C2
    return op->emitOpError("expected ")
           << outer.getNumElements() << " floats, got " << type;
  return success();
}

LogicalResult
OuterDifferenceOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyOuter(*this, getSourceAttr(), getResult().getType(), symbols);
}

LogicalResult OuterUpdateOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyOuter(*this, getTargetAttr(), getValue().getType(), symbols);
}
