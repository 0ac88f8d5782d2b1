// SPDX-License-Identifier: Apache-2.0
//
// Defines the verifiers of collectives, host-cache copies and the optimizer.
// BufferedOpInterface verifies buffers.

#include "dialects/Fcdp/StatePieces.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/Support/CheckedArithmetic.h"

using namespace mlir;
using namespace fcdp;

/// Verifies C1 of the collectives and returns the number of ranks along the
/// axes.
static FailureOr<int64_t> verifyGroup(CollectiveOpInterface op,
                                      SymbolTableCollection &symbols) {
  Operation *source = symbols.lookupNearestSymbolFrom(op, op.getSourceAttr());
  if (!isa_and_present<ParameterOp, BucketOp>(source)) // C1
    return op->emitOpError("expected a parameter or bucket, got ")
           << op.getSourceAttr();
  auto mesh = symbols.lookupNearestSymbolFrom<MeshOp>(op, op.getMeshAttr());
  if (!mesh) // C1
    return op->emitOpError("expected a mesh, got ") << op.getMeshAttr();
  SmallVector<Axis> seen;
  int64_t ranks = 1;
  for (AxisAttr axis : op.getAxes().getAsRange<AxisAttr>()) {
    if (llvm::is_contained(seen, axis.getValue())) // C1
      return op->emitOpError("axis '")
             << stringifyAxis(axis.getValue()) << "' is given twice";
    seen.push_back(axis.getValue());
    ranks *= mesh.getSize(axis.getValue());
  }
  if (seen.empty()) // C1
    return op->emitOpError("expected at least one axis");
  return ranks;
}

/// Verifies C2 and C3 of the collectives: the whole is the parts of `ranks`
/// ranks, in a type that the kind allows.
static LogicalResult verifySizes(CollectiveOpInterface op, int64_t ranks) {
  Type partType = op.getInput().getType(), wholeType = op.getResult().getType();
  if (op.isReduction())
    std::swap(partType, wholeType);
  if (auto shard = dyn_cast<ShardType>(partType)) { // C2
    if (op.getAxes().size() != 2)
      return op->emitOpError("expected both axes for a shard without layout");
    if (shard.getWhole() != wholeType)
      return op->emitOpError("expected the whole tensor ")
             << shard.getWhole() << ", got " << wholeType;
    return success();
  }
  auto part = cast<RankedTensorType>(partType);
  auto whole = cast<RankedTensorType>(wholeType);
  bool isOneType = part.getElementType() == whole.getElementType();
  if (whole.getRank() != 1 || (op.isGather() && !isOneType) ||
      llvm::checkedMul(part.getNumElements(), ranks) !=
          whole.getNumElements()) // C3
    return op->emitOpError("expected ")
           << ranks << " times the elements of " << part << ", got " << whole;
  if (op.isReduction() && !isOneType && !part.getElementType().isF32()) // C3
    return op->emitOpError("expected elements of ")
           << whole.getElementType() << " or f32, got "
           << part.getElementType();
  return success();
}

LogicalResult fcdp::verifyCollective(CollectiveOpInterface op,
                                     SymbolTableCollection &symbols) {
  FailureOr<int64_t> ranks = verifyGroup(op, symbols);
  if (failed(ranks) || failed(op.verifyOwnSymbolUses(symbols)) ||
      failed(verifyMessages(op, symbols)))
    return failure();
  return verifySizes(op, *ranks);
}

/// Returns `input` for an operation whose result has its values. Null if the
/// input is a view of memory, which a later operation may overwrite while the
/// result keeps the values.
static OpFoldResult foldToInput(Value input) {
  Operation *producer = input.getDefiningOp();
  bool isView = producer && producer->hasTrait<RunsNothing>();
  return isView ? OpFoldResult() : input;
}

/// Folds a collective over one rank. Scheduled and planned ones stay, because
/// others wait for their stream or use their memory.
template <typename OpTy>
static OpFoldResult foldOverOneRank(OpTy op) {
  bool mayFold = op.hasItsInput() && !op.getStreamAttr() && !op.getBufferAttr();
  return mayFold ? foldToInput(op.getInput()) : OpFoldResult();
}

OpFoldResult AllGatherOp::fold(FoldAdaptor) {
  return getIntoAttr() ? OpFoldResult() : foldOverOneRank(*this);
}

OpFoldResult ReduceScatterOp::fold(FoldAdaptor) {
  return foldOverOneRank(*this);
}

LogicalResult AllGatherOp::verifyOwnSymbolUses(SymbolTableCollection &symbols) {
  if (getIntoAttr()) { // C6
    auto state = symbols.lookupNearestSymbolFrom<StateOp>(*this, getIntoAttr());
    if (!state ||
        (state.getRole() != StateRole::resident &&
         state.getRole() != StateRole::prefetched) ||
        state.getBucketAttr() != getSourceAttr() ||
        state.getType() != getResult().getType())
      return emitOpError("expected a state of role 'resident' or 'prefetched' "
                         "of ")
             << getSourceAttr() << " and of type " << getResult().getType()
             << ", got " << getIntoAttr();
  }
  if (isOfGradient()) { // C7
    auto input = dyn_cast<RankedTensorType>(getInput().getType());
    auto bucket =
        symbols.lookupNearestSymbolFrom<BucketOp>(*this, getSourceAttr());
    bool hasType =
        input && bucket &&
        (input.getElementType().isF32() || reducesWithinNode(bucket));
    if (!hasType || getIntoAttr())
      return emitOpError("without 'range' expected an f32 gradient, or a "
                         "difference of outer steps, of a bucket and no "
                         "'into', got ")
             << getInput().getType() << " of " << getSourceAttr();
  }
  return success();
}

LogicalResult ReadShardOp::verifySymbolUses(SymbolTableCollection &symbols) {
  Operation *source = symbols.lookupNearestSymbolFrom(*this, getSourceAttr());
  Type expected;
  if (auto parameter = dyn_cast_if_present<ParameterOp>(source)) {
    expected = ShardType::get(getContext(), parameter.getTensorType());
  } else if (auto bucket = dyn_cast_if_present<BucketOp>(source)) {
    MeshOp mesh = getMesh((*this)->getParentOfType<ModuleOp>());
    if (!mesh)
      return emitOpError("expected a mesh in the module");
    expected = getStateType(bucket, StateRole::shard, mesh);
  } else {
    return emitOpError("expected a parameter or bucket, got ")
           << getSourceAttr();
  }
  if (getResult().getType() != expected) // C1
    return emitOpError("expected result type ")
           << expected << ", got " << getResult().getType();
  return success();
}

LogicalResult ReadStateOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto state = symbols.lookupNearestSymbolFrom<StateOp>(*this, getSourceAttr());
  if (!state || (state.getRole() != StateRole::resident &&
                 state.getRole() != StateRole::prefetched &&
                 state.getRole() != StateRole::node_grad &&
                 state.getRole() != StateRole::full_grad)) // C1
    return emitOpError("expected a state of role 'resident', 'prefetched', "
                       "'node_grad' or 'full_grad', got ")
           << getSourceAttr();
  if (state.getType() != getResult().getType()) // C1
    return emitOpError("expected result type ")
           << state.getType() << ", got " << getResult().getType();
  return success();
}

OpFoldResult CastShardOp::fold(FoldAdaptor) {
  bool isNothing = getInput().getType() == getResult().getType();
  return isNothing && !getBufferAttr() ? foldToInput(getInput())
                                       : OpFoldResult();
}

LogicalResult CastShardOp::verify() {
  auto whole = [](Type type) {
    if (auto shard = dyn_cast<ShardType>(type))
      return shard.getWhole();
    return cast<RankedTensorType>(type);
  };
  Type input = getInput().getType(), result = getResult().getType();
  if (isa<ShardType>(input) != isa<ShardType>(result) ||
      whole(input).clone(whole(result).getElementType()) != whole(result)) // C1
    return emitOpError("expected a result that differs from ")
           << input << " in its element type only, got " << result;
  return success();
}

static MemberAttr findMember(BucketOp bucket, FlatSymbolRefAttr parameter) {
  for (MemberAttr member : bucket.getMembers().getAsRange<MemberAttr>())
    if (member.getParameter() == parameter)
      return member;
  return {};
}

LogicalResult ViewMemberOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto bucket =
      symbols.lookupNearestSymbolFrom<BucketOp>(*this, getBucketAttr());
  auto parameter =
      symbols.lookupNearestSymbolFrom<ParameterOp>(*this, getParameterAttr());
  if (!bucket || !parameter || !findMember(bucket, getParameterAttr())) // C1
    return emitOpError("expected a parameter and its bucket, got ")
           << getParameterAttr() << " of " << getBucketAttr();
  auto whole = RankedTensorType::get(
      {static_cast<int64_t>(bucket.getElements())}, bucket.getWire());
  if (getWhole().getType() != whole) // C1
    return emitOpError("expected the whole bucket ")
           << whole << ", got " << getWhole().getType();
  auto expected = parameter.getTensorType().clone(bucket.getWire());
  if (getResult().getType() != expected) // C2
    return emitOpError("expected result type ")
           << expected << ", got " << getResult().getType();
  return success();
}

LogicalResult PackOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto bucket =
      symbols.lookupNearestSymbolFrom<BucketOp>(*this, getBucketAttr());
  if (!bucket) // C1
    return emitOpError("expected a bucket, got ") << getBucketAttr();
  RankedTensorType result = getResult().getType();
  if (result.getNumElements() !=
      static_cast<int64_t>(bucket.getElements())) // C2
    return emitOpError("expected the whole bucket of ")
           << bucket.getElements() << " elements, got " << result;
  std::optional<Type> reduce = bucket.getReduce();
  if (reduce && result.getElementType() != *reduce) // C2
    return emitOpError("expected the bucket's type of reductions ")
           << *reduce << ", got " << result;
  if (getValues().size() != getParameters().size()) // C1
    return emitOpError("expected as many parameters as values, got ")
           << getParameters().size() << " and " << getValues().size();
  SmallPtrSet<Attribute, 8> seen;
  for (auto [value, attr] : llvm::zip_equal(getValues(), getParameters())) {
    auto name = cast<FlatSymbolRefAttr>(attr);
    auto parameter = symbols.lookupNearestSymbolFrom<ParameterOp>(*this, name);
    if (!parameter || !findMember(bucket, name) ||
        !seen.insert(name).second) // C1
      return emitOpError("expected distinct members of ")
             << getBucketAttr() << ", got " << name;
    Type given = cast<RankedTensorType>(value.getType()).getElementType();
    auto expected = parameter.getTensorType().clone(
        reduce && isa<FloatType>(given) ? given : result.getElementType());
    if (value.getType() != expected) // C1, C2
      return emitOpError("expected type ")
             << expected << " for " << name << ", got " << value.getType();
  }
  if (ArrayAttr inPlace = getInPlaceAttr())
    for (Attribute name : inPlace)
      if (!seen.erase(name)) // C5
        return emitOpError("expected 'in_place' to be distinct parameters of "
                           "the values, got ")
               << name;
  return success();
}

/// Verifies C1 of accumulate and shard_update and returns the parameter or
/// bucket.
template <typename OpTy>
static FailureOr<Operation *> verifyTarget(OpTy op,
                                           SymbolTableCollection &symbols) {
  Operation *target = symbols.lookupNearestSymbolFrom(op, op.getTargetAttr());
  if (auto parameter = dyn_cast_if_present<ParameterOp>(target))
    if (parameter.getTrainable())
      return target;
  if (auto bucket = dyn_cast_if_present<BucketOp>(target))
    if (bucket.getTrainable())
      return target;
  return op.emitOpError("expected a trainable parameter or bucket, got ")
         << op.getTargetAttr();
}

void AccumulateOp::getEffects(
    SmallVectorImpl<MemoryEffects::EffectInstance> &effects) {
  if (getMode() == Accumulate::add)
    effects.emplace_back(MemoryEffects::Read::get(), getTargetAttr(),
                         Accumulator::get());
  effects.emplace_back(MemoryEffects::Write::get(), getTargetAttr(),
                       Accumulator::get());
}

LogicalResult AccumulateOp::verifySymbolUses(SymbolTableCollection &symbols) {
  if (getLate() && (!isa<RankedTensorType>(getValue().getType()) ||
                    !isa_and_present<CollectiveOpInterface>(
                        getValue().getDefiningOp()))) // C3
    return emitOpError("expected the flat result of a reduction or a gather "
                       "for a late sum");
  if (getStream() && !getLate()) // C4
    return emitOpError("expected no stream where the sum is not late, got '")
           << stringifyStream(*getStream()) << "'";
  if (auto state =
          symbols.lookupNearestSymbolFrom<StateOp>(*this, getTargetAttr());
      state && (state.getRole() == StateRole::node_grad ||
                state.getRole() == StateRole::full_grad)) {
    if (getValue().getType() != state.getType()) // C2
      return emitOpError("expected type ")
             << state.getType() << ", got " << getValue().getType();
    return success();
  }
  FailureOr<Operation *> target = verifyTarget(*this, symbols);
  if (failed(target))
    return failure();
  if (auto parameter = dyn_cast<ParameterOp>(*target)) {
    auto shard = dyn_cast<ShardType>(getValue().getType());
    ArrayRef<int64_t> shape = parameter.getTensorType().getShape();
    if (!shard || shard.getWhole().getShape() != shape) // C2
      return emitOpError("expected a shard of the shape of ")
             << parameter.getType() << ", got " << getValue().getType();
    return success();
  }
  auto bucket = cast<BucketOp>(*target);
  MeshOp mesh = getMesh((*this)->getParentOfType<ModuleOp>());
  if (!mesh)
    return emitOpError("expected a mesh in the module");
  RankedTensorType expected = getStateType(bucket, StateRole::grad, mesh);
  if (getValue().getType() != expected) // C2
    return emitOpError("expected type ")
           << expected << ", got " << getValue().getType();
  return success();
}

/// Returns the parameters of a bucket, or the parameter itself.
static SmallVector<ParameterOp> getParameters(Operation *target,
                                              SymbolTableCollection &symbols) {
  if (auto parameter = dyn_cast<ParameterOp>(target))
    return {parameter};
  SmallVector<ParameterOp> parameters;
  for (auto member :
       cast<BucketOp>(target).getMembers().getAsRange<MemberAttr>())
    if (auto parameter = symbols.lookupNearestSymbolFrom<ParameterOp>(
            target, member.getParameter()))
      parameters.push_back(parameter);
  return parameters;
}

LogicalResult fcdp::verifyOptimizer(UpdateOpInterface update,
                                    SymbolTableCollection &symbols,
                                    Operation *target) {
  OptimizerAttrInterface settings = update.getSettings();
  for (ParameterOp parameter : getParameters(target, symbols))
    if (!settings.canUpdate(parameter.getTensorType()))
      return update->emitOpError("expected parameters that '")
             << settings.getName() << "' can update, got @"
             << parameter.getSymName() << " of type " << parameter.getType();
  auto bucket = dyn_cast<BucketOp>(target);
  if (!bucket)
    return success();
  Attribute needed = settings.getNeededLayout();
  if (needed && bucket.getLayoutAttr() != needed)
    return update->emitOpError("expected a bucket with the layout ")
           << needed << ", which '" << settings.getName() << "' needs, got "
           << update.getTargetAttr();
  if (int64_t side = settings.getMaxSide(),
      found = bucket.getMaxSide().value_or(0);
      side != found)
    return update->emitOpError("expected a bucket with the 'max_side' ")
           << side << " of '" << settings.getName() << "', got " << found;
  return success();
}

LogicalResult ShardUpdateOp::verifySymbolUses(SymbolTableCollection &symbols) {
  FailureOr<Operation *> target = verifyTarget(*this, symbols);
  if (failed(target) || failed(verifyOptimizer(*this, symbols, *target))) // C2
    return failure();
  return verifyPiece(*this, dyn_cast<BucketOp>(*target));
}

int64_t ShardUpdateOp::getScratchBytes() {
  SymbolTableCollection symbols;
  int64_t bytes = 0;
  if (Operation *target =
          symbols.lookupNearestSymbolFrom(*this, getTargetAttr()))
    for (ParameterOp parameter : getParameters(target, symbols))
      bytes = std::max(
          bytes, getSettings().getScratchBytes(parameter.getTensorType()));
  return bytes;
}

LogicalResult ClipGradientsOp::verify() {
  for (auto [name, value] :
       {std::pair("max_norm", getMaxNorm()), std::pair("scale", getScale())})
    if (!value.isFinite() || value.isNegative() || value.isZero()) // C1
      return emitOpError("expected '")
             << name << "' to be finite and positive, got "
             << value.convertToDouble();
  return success();
}

/// Verifies C1 of the cache operations.
static LogicalResult verifyCache(Operation *op, FlatSymbolRefAttr name,
                                 Type type, SymbolTableCollection &symbols) {
  auto state = symbols.lookupNearestSymbolFrom<StateOp>(op, name);
  if (!state || (state.getRole() != StateRole::cache &&
                 state.getRole() != StateRole::host_grad)) // C1
    return op->emitOpError("expected a state of role 'cache' or 'host_grad', "
                           "got ")
           << name;
  if (state.getType() != type) // C1
    return op->emitOpError("expected type ")
           << state.getType() << ", got " << type;
  return success();
}

LogicalResult CacheStoreOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyCache(*this, getTargetAttr(), getValue().getType(), symbols);
}

bool CacheLoadOp::isOfGradient() {
  return llvm::any_of(getResult().getUsers(), llvm::IsaPred<AddOp>);
}

LogicalResult CacheLoadOp::verifySymbolUses(SymbolTableCollection &symbols) {
  if (failed(
          verifyCache(*this, getSourceAttr(), getResult().getType(), symbols)))
    return failure();
  if (getIntoAttr()) { // C4
    auto state = symbols.lookupNearestSymbolFrom<StateOp>(*this, getIntoAttr());
    auto cache =
        symbols.lookupNearestSymbolFrom<StateOp>(*this, getSourceAttr());
    if (!state || state.getRole() != StateRole::prefetched ||
        state.getBucketAttr() != cache.getBucketAttr() ||
        state.getType() != getResult().getType())
      return emitOpError("expected a state of role 'prefetched' of ")
             << cache.getBucketAttr() << " and of type "
             << getResult().getType() << ", got " << getIntoAttr();
  }
  return success();
}
