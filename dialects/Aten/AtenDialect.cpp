// SPDX-License-Identifier: Apache-2.0

#include "dialects/Aten/Aten.h"

#include "dialects/Aten/ChunkedLoss.h"
#include "dialects/Aten/OpTable.h"
#include "dialects/Aten/ResultShapes.h"
#include "dialects/Aten/UnpackedMatrix.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace fcdp::aten;

#include "dialects/Aten/AtenDialect.cpp.inc"
#include "dialects/Aten/AtenEnums.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/Aten/AtenAttrs.cpp.inc"

void AtenDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/Aten/AtenAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/Aten/AtenOps.cpp.inc"
      >();
}

/// Returns whether a list may contain this literal. Numbers print without a
/// type, so they must have the type that a bare number parses to.
static bool isElement(Attribute attr) {
  if (auto integer = dyn_cast<IntegerAttr>(attr))
    return isa<BoolAttr>(attr) || integer.getType().isSignlessInteger(64);
  if (auto number = dyn_cast<FloatAttr>(attr))
    return number.getType().isF64();
  return isa<StringAttr>(attr);
}

static bool isLiteral(Attribute attr) {
  if (auto list = dyn_cast<ArrayAttr>(attr))
    return llvm::all_of(list, isElement);
  if (auto type = dyn_cast<TypeAttr>(attr))
    return isa<IntegerType, FloatType, ComplexType>(type.getValue());
  return isElement(attr) ||
         isa<UnitAttr, DeviceAttr, LayoutAttr, MemoryFormatAttr>(attr);
}

Attribute CallOp::getArgument(StringRef name) {
  for (auto [argName, arg] :
       llvm::zip(getArgNames().getAsRange<StringAttr>(), getArgs()))
    if (argName == name)
      return arg;
  return {};
}

LogicalResult CallOp::verify() {
  SmallVector<StringRef> parts;
  getCallee().split(parts, '.');
  if (parts.size() != 3 || llvm::any_of(parts, [](StringRef part) { // C1
        return part.empty();
      }))
    return emitOpError("expected a callee 'NAMESPACE.OP.OVERLOAD', got '")
           << getCallee() << "'";
  if (getArgNames().size() != getArgs().size()) // C2
    return emitOpError("expected as many argument names as arguments, got ")
           << getArgNames().size() << " and " << getArgs().size();

  llvm::StringSet<> seen;
  for (StringAttr name : getArgNames().getAsRange<StringAttr>())
    if (!seen.insert(name.getValue()).second) // C2
      return emitOpError("argument '") << name.getValue() << "' is given twice";

  int64_t next = 0;
  auto use = [&](int64_t index) -> LogicalResult { // C3
    if (index != next++)
      return emitOpError("expected arguments to use operand ")
             << next - 1 << " next, got operand " << index;
    return success();
  };
  for (Attribute arg : getArgs()) {
    if (auto operand = dyn_cast<OperandAttr>(arg)) {
      if (failed(use(operand.getIndex())))
        return failure();
    } else if (auto list = dyn_cast<OperandListAttr>(arg)) {
      if (list.getIndices().empty()) // C3
        return emitOpError("expected an operand in a list of operands");
      for (int64_t index : list.getIndices())
        if (index != -1 && failed(use(index)))
          return failure();
    } else if (!isLiteral(arg)) { // C4
      return emitOpError("unsupported argument '") << arg << "'";
    }
  }
  if (next != static_cast<int64_t>(getOperands().size()))
    return emitOpError("expected arguments to use all ")
           << getOperands().size() << " operands, got " << next;

  if (std::optional<ArrayRef<int64_t>> undefined = getUndefined()) { // C5
    int64_t previous = -1;
    int64_t returns = getNumResults() + undefined->size();
    for (int64_t position : *undefined) {
      if (position <= previous || position >= returns)
        return emitOpError("expected undefined returns in ascending order, "
                           "each below ")
               << returns << ", got " << position;
      previous = position;
    }
  }
  return success(succeeded(verifySizes(*this)) &&         // C6
                 succeeded(verifyResultShape(*this)) &&   // C7
                 succeeded(verifyChunkedLoss(*this)) &&   // C8
                 succeeded(verifyUnpackedMatrix(*this))); // C9
}

static bool hasDropout(CallOp call) {
  Attribute rate = call.getArgument("dropout_p");
  auto number = dyn_cast_or_null<FloatAttr>(rate);
  return rate && !(number && number.getValue().isZero());
}

bool CallOp::drawsRandomNumbers() {
  OpInfo info = lookupOp(getCallee());
  return info.randomIfDropout ? hasDropout(*this) : info.random;
}

/// Returns whether the call is a backward pass of attention with dropout. It
/// reads a random state, for which it expects memory of the device during a
/// capture, and which its forward pass has put into the host's.
static bool readsRandomState(CallOp call) {
  return llvm::any_of(
      ArrayRef<StringRef>{"philox_seed", "rng_state"}, [&](StringRef name) {
        return call.getArgument(name) && !call.leavesUnread(name);
      });
}

/// Returns whether the call is indexed by a mask. The number of elements that a
/// mask selects must be read from the device.
static bool isIndexedByMask(CallOp call) {
  StringRef name = call.getCallee().rsplit('.').first;
  if (name != "aten.index" && name != "aten.index_put")
    return false;
  return llvm::any_of(call.getOperandTypes(), [](Type type) {
    Type element = cast<RankedTensorType>(type).getElementType();
    return element.isInteger(1) || element.isUnsignedInteger(8);
  });
}

/// Returns whether the call may read the ends of its groups from the device.
/// Only on GPUs of compute capability 9 and 10, and in bfloat16, libtorch has a
/// kernel that does without.
static bool readsGroups(CallOp call) {
  return call.getCallee().rsplit('.').first == "aten._grouped_mm";
}

bool CallOp::leavesUnread(StringRef name) {
  bool isRandomState = name == "philox_seed" || name == "philox_offset" ||
                       name == "rng_state" || name == "unused";
  return isRandomState && !hasDropout(*this);
}

bool CallOp::isReplayable() {
  auto device = dyn_cast_or_null<DeviceAttr>(getArgument("device"));
  bool isOnHost = device && device.getName().starts_with("cpu");
  return !lookupOp(getCallee()).random && !readsRandomState(*this) &&
         !isIndexedByMask(*this) && !readsGroups(*this) && !isOnHost;
}

void CallOp::getEffects(
    SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>>
        &effects) {
  if (!drawsRandomNumbers())
    return;
  effects.emplace_back(MemoryEffects::Read::get(), RandomState::get());
  effects.emplace_back(MemoryEffects::Write::get(), RandomState::get());
}
