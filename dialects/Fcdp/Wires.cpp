// SPDX-License-Identifier: Apache-2.0

#include "dialects/Fcdp/Wires.h"

#include "core/MessageSpec.h"
#include "dialects/Fcdp/Tiers.h"

using namespace mlir;
using namespace fcdp;

bool fcdp::isFor(Wire wire, CollectiveKind kind) {
  return wire == Wire::raw ||
         (wire == Wire::delta) == (kind == CollectiveKind::allGather);
}

std::string fcdp::getCollectiveName(CollectiveKind kind, Wire wire) {
  StringRef name =
      kind == CollectiveKind::allGather ? "all_gather" : "reduce_scatter";
  return wire == Wire::raw ? name.str()
                           : (name + "_" + stringifyWire(wire)).str();
}

bool fcdp::canSend(Wire wire, Type type) {
  return wire != Wire::delta || type.isBF16() || type.isF16();
}

bool fcdp::isQuantized(std::optional<Wire> wire) {
  return wire == Wire::int8 || wire == Wire::int4;
}

bool fcdp::canCode(Wire wire, Target target) {
  return target == Target::cpu || wire == Wire::raw || isQuantized(wire);
}

static QuantizedFormat getFormat(Wire wire) {
  return wire == Wire::int8 ? kInt8Format : kInt4Format;
}

std::optional<StateRole> fcdp::getNeededState(Wire wire) {
  if (wire == Wire::delta)
    return StateRole::cache;
  return isQuantized(wire) ? std::optional(StateRole::residual) : std::nullopt;
}

std::optional<double> fcdp::getFixedBits(Wire wire) {
  if (!isQuantized(wire))
    return std::nullopt;
  QuantizedFormat format = getFormat(wire);
  return static_cast<double>(format.bits) +
         8.0 * kScaleBytes / static_cast<double>(format.blockElements);
}

static int64_t getCapacity(Wire wire, int64_t bytes, int64_t elements) {
  if (wire == Wire::raw)
    return bytes;
  return isQuantized(wire) ? quantizedBytes(getFormat(wire), elements)
                           : codedCapacity(bytes);
}

int64_t CollectiveOpInterface::getMostSentBytes() {
  return getCapacity(
      getWire(), getPartBytes(),
      cast<RankedTensorType>(getResult().getType()).getNumElements());
}

/// Returns the number of parts that the greater of two flat tensors has.
static int64_t countRanks(Type part, Type whole) {
  int64_t elements = cast<RankedTensorType>(part).getNumElements();
  return elements == 0
             ? 0
             : cast<RankedTensorType>(whole).getNumElements() / elements;
}

std::optional<int64_t> AllGatherOp::getScratchBytes() {
  if (!isCoded())
    return std::nullopt;
  return codedGatherBytes(
      countRanks(getInput().getType(), getResult().getType()),
      cast<CollectiveOpInterface>(getOperation()).getPartBytes());
}

std::optional<int64_t> ReduceScatterOp::getScratchBytes() {
  auto input = dyn_cast<RankedTensorType>(getInput().getType());
  if (!input || !isa<RankedTensorType>(getResult().getType()))
    return std::nullopt; // before there are buckets
  if (!isCoded())
    return byteSize(input);
  return llvm::alignTo(byteSize(input), kMessageAlignment) +
         // There is one message to each rank, and one from each.
         2 * countRanks(getResult().getType(), input) *
             cast<CollectiveOpInterface>(getOperation()).getMostSentBytes();
}

bool fcdp::canCodeDeltas(BucketOp bucket) {
  return bucket.getTrainable() && canSend(Wire::delta, bucket.getWire());
}

bool fcdp::mayGatherDeltas(BucketOp bucket) {
  auto isInHost = [](std::optional<Residency> residency) {
    return residency && getTier(*residency).arena == Arena::host;
  };
  return (isInHost(bucket.getResidency()) || isInHost(bucket.getCarry())) &&
         canCodeDeltas(bucket);
}

bool fcdp::gathersReferToSlice(BucketOp bucket) {
  std::optional<Wire> wire = bucket.getGatherWire();
  return wire && getNeededState(*wire) == StateRole::cache;
}

llvm::ArrayRef<std::string> fcdp::getCollectiveNames() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> made;
    for (CollectiveKind kind : kCollectiveKinds)
      for (unsigned i = 0; i <= getMaxEnumValForWire(); ++i)
        if (auto wire = static_cast<Wire>(i); isFor(wire, kind))
          made.push_back(getCollectiveName(kind, wire));
    return made;
  }();
  return names;
}

llvm::SmallVector<std::pair<StringRef, StringRef>>
fcdp::getMessageForms(BucketOp bucket) {
  auto stringify = [](std::optional<Wire> wire) {
    return stringifyWire(wire.value_or(Wire::raw));
  };
  return {{bucket.getGatherWireAttrName(), stringify(bucket.getGatherWire())},
          {bucket.getReduceWireAttrName(), stringify(bucket.getReduceWire())}};
}

llvm::SmallVector<StringRef> fcdp::getReductionForms(Target target) {
  llvm::SmallVector<StringRef> forms;
  for (unsigned i = 0; i <= getMaxEnumValForWire(); ++i)
    if (auto wire = static_cast<Wire>(i);
        isFor(wire, CollectiveKind::reduceScatter) && canCode(wire, target))
      forms.push_back(stringifyWire(wire));
  return forms;
}

void fcdp::setReductionForm(BucketOp bucket, StringRef form) {
  bucket.setReduceWire(*symbolizeWire(form));
}

LogicalResult fcdp::verifyMessages(BucketOp bucket) {
  std::optional<Wire> gather = bucket.getGatherWire();
  if (gather && *gather != Wire::raw &&
      (!isFor(*gather, CollectiveKind::allGather) ||
       !mayGatherDeltas(bucket))) // C13
    return bucket.emitOpError(
               "expected 'gather_wire' to be 'raw', or 'delta' in a "
               "trainable bucket of wire type bf16 or f16 with "
               "residency or carry 'host', got '")
           << stringifyWire(*gather) << "'";
  std::optional<Wire> reduce = bucket.getReduceWire();
  if (reduce && *reduce != Wire::raw &&
      (!isFor(*reduce, CollectiveKind::reduceScatter) ||
       !bucket.getTrainable() ||
       bucket.getCollectives() == Collectives::flat)) // C14
    return bucket.emitOpError(
               "expected 'reduce_wire' to be 'raw', or 'coded', 'int8' or "
               "'int4' "
               "in a trainable bucket whose collectives are not 'flat', "
               "got '")
           << stringifyWire(*reduce) << "'";
  return success();
}

/// Verifies C8 of all_gather.
static LogicalResult verifyWire(AllGatherOp op,
                                SymbolTableCollection &symbols) {
  if (!op.getDeltaAttr())
    return success();
  auto state = symbols.lookupNearestSymbolFrom<StateOp>(op, op.getDeltaAttr());
  RankedTensorType result = op.getResult().getType();
  if (!state || state.getRole() != getNeededState(op.getWire()) ||
      state.getBucketAttr() != op.getSourceAttr() || state.getType() != result)
    return op.emitOpError("expected 'delta' to be a state of role 'cache' of ")
           << op.getSourceAttr() << " and of type " << result << ", got "
           << op.getDeltaAttr();
  Type element = result.getElementType();
  if (op.isOfGradient() || op.isOverAxis(Axis::local) ||
      !canSend(op.getWire(), element))
    return op.emitOpError(
        "expected a gather of parameters over 'node' alone, in "
        "bf16 or f16, with 'delta'");
  return success();
}

/// Verifies C6 and C7 of reduce_scatter.
static LogicalResult verifyWire(ReduceScatterOp op,
                                SymbolTableCollection &symbols) {
  std::optional<Wire> code = op.getCode();
  if (code &&
      (*code == Wire::raw || !isFor(*code, CollectiveKind::reduceScatter) ||
       op.isOverAxis(Axis::local))) // C6
    return op.emitOpError("expected 'code' to be 'coded', 'int8' or 'int4', in "
                          "a reduction over 'node' alone, got '")
           << stringifyWire(*code) << "'";
  FlatSymbolRefAttr residual = op.getResidualAttr();
  if (isQuantized(code) != !!residual) // C7
    return op.emitOpError("expected 'residual' with the codes 'int8' and "
                          "'int4', and no others");
  if (!residual)
    return success();
  auto state = symbols.lookupNearestSymbolFrom<StateOp>(op, residual);
  RankedTensorType input = op.getInput().getType();
  if (!state || state.getRole() != StateRole::residual ||
      state.getBucketAttr() != op.getSourceAttr() ||
      state.getTensorType().getNumElements() != input.getNumElements())
    return op.emitOpError("expected 'residual' to be a state of role "
                          "'residual' of ")
           << op.getSourceAttr() << " with " << input.getNumElements()
           << " elements, got " << residual;
  return success();
}

LogicalResult fcdp::verifyMessages(CollectiveOpInterface op,
                                   SymbolTableCollection &symbols) {
  if (auto gather = dyn_cast<AllGatherOp>(*op))
    return verifyWire(gather, symbols);
  return verifyWire(cast<ReduceScatterOp>(*op), symbols);
}
