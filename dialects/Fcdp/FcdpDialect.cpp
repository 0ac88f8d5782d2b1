// SPDX-License-Identifier: Apache-2.0

#include "core/PackedLayout.h"
#include "dialects/Fcdp/Fcdp.h"
#include "dialects/Fcdp/Tiers.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/CheckedArithmetic.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace fcdp;

LogicalResult fcdp::verifyNumber(function_ref<InFlightDiagnostic()> emitError,
                                 StringRef name, FloatAttr number,
                                 double least) {
  bool isNegativeAllowed = least < 0;
  if (number.getType().isF64() && number.getValue().isFinite() &&
      (isNegativeAllowed || number.getValueAsDouble() >= 0))
    return success();
  return emitError() << "expected '" << name << "' to be a finite f64"
                     << (isNegativeAllowed ? "" : " from 0 on") << ", got "
                     << number;
}

/// Returns the bytes that an array takes of the memory of an update, in which
/// each begins at a multiple of 64 bytes.
static int64_t getScratch(int64_t elements, int64_t width) {
  return static_cast<int64_t>(
      llvm::alignTo(elements * width, kMemberAlignment));
}

#include "dialects/Fcdp/FcdpAttrInterfaces.cpp.inc"
#include "dialects/Fcdp/FcdpDialect.cpp.inc"
#include "dialects/Fcdp/FcdpEnums.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "dialects/Fcdp/FcdpTypes.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/Fcdp/FcdpAttrs.cpp.inc"

void FcdpDialect::initialize() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "dialects/Fcdp/FcdpTypes.cpp.inc"
      >();
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/Fcdp/FcdpAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/Fcdp/FcdpOps.cpp.inc"
      >();
}

LogicalResult ShardType::verify(function_ref<InFlightDiagnostic()> emitError,
                                RankedTensorType whole) {
  if (!isCopyElement(whole.getElementType()) || !hasByteSize(whole)) // C1
    return emitError() << "expected a static tensor of floats or ui8, got "
                       << whole;
  return success();
}

LogicalResult StoredType::verify(function_ref<InFlightDiagnostic()> emitError,
                                 RankedTensorType tensor) {
  if (!hasByteSize(tensor)) // C1
    return emitError() << "expected a static tensor whose bytes are known, got "
                       << tensor;
  return success();
}

LogicalResult MemberAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                 FlatSymbolRefAttr, int64_t offset) {
  if (offset < 0) // C1
    return emitError() << "expected an offset from 0 on, got " << offset;
  return success();
}

LogicalResult LayoutAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                 LayoutKind kind, int64_t rows) {
  bool hasRows = kind == LayoutKind::ragged || kind == LayoutKind::blocks;
  if (hasRows != (rows != 0) || rows < 0) // C1
    return emitError() << "expected 'flat', 'ragged<rows>' or "
                          "'blocks<elements>' with a positive number, "
                          "'owned' or 'whole', got '"
                       << stringifyLayoutKind(kind) << '<' << rows << ">'";
  return success();
}

int64_t LayoutAttr::getBlockElements(RankedTensorType tensor) const {
  int64_t elements = tensor.getNumElements(), rank = tensor.getRank();
  if (elements == 0 || rank == 0 || getKind() == LayoutKind::flat)
    return 1;
  if (getKind() == LayoutKind::blocks)
    return getRows();
  if (getKind() == LayoutKind::whole)
    return elements;
  if (getKind() == LayoutKind::ragged)
    return std::min(getRows(), tensor.getDimSize(0)) *
           (elements / tensor.getDimSize(0));
  if (rank == 1)
    return 1;
  return rank == 3 ? elements / tensor.getDimSize(0) : elements;
}

LogicalResult BufferAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                 Arena, int64_t offset, int64_t bytes,
                                 int64_t nodeStride, int64_t localStride) {
  for (int64_t number : {offset, bytes, nodeStride, localStride})
    if (number < 0) // C1
      return emitError() << "expected a number from 0 on, got " << number;
  if (!llvm::checkedAdd(offset, bytes)) // C1
    return emitError() << "the buffer's end is out of range";
  return success();
}

LogicalResult GroupAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                FloatAttr lr, FloatAttr weightDecay) {
  return success(
      succeeded(verifyNumber(emitError, "lr", lr)) &&
      succeeded(verifyNumber(emitError, "weight_decay", weightDecay)));
}

LogicalResult PackedAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                 Packing, RankedTensorType whole, bool) {
  Type element = whole.getElementType();
  constexpr int64_t most = int64_t(1) << 48;
  if (whole.getRank() != 2 || !hasByteSize(whole) || byteSize(whole) > most ||
      !(element.isF32() || element.isBF16() || element.isF16())) // C1
    return emitError() << "expected a static matrix of f32, bf16 or f16 of at "
                          "most 2^48 bytes, got "
                       << whole;
  return success();
}

int64_t PackedAttr::countBytes() const {
  int64_t rows = getWhole().getDimSize(0), columns = getWhole().getDimSize(1);
  return getPacking() == Packing::nf4
             ? PackedLayout::ofNf4(rows * columns).countBytes()
             : PackedLayout::ofInt8(rows, columns).countBytes();
}

bool fcdp::isCopyElement(Type element) {
  return isa<FloatType>(element) || element.isUnsignedInteger(8);
}

int64_t fcdp::elementBytes(Type type) {
  if (auto complex = dyn_cast<ComplexType>(type))
    return 2 * elementBytes(complex.getElementType());
  return (type.getIntOrFloatBitWidth() + 7) / 8;
}

bool fcdp::hasByteSize(RankedTensorType type) {
  Type element = type.getElementType();
  if (auto complex = dyn_cast<ComplexType>(element))
    element = complex.getElementType();
  if (!type.hasStaticShape() || !element.isIntOrFloat())
    return false;
  // A dimension of size 0 does not allow the others to overflow, as in PyTorch.
  int64_t bytes = elementBytes(type.getElementType());
  return llvm::none_of(type.getShape(), [&](int64_t size) {
    return llvm::MulOverflow(bytes, std::max<int64_t>(size, 1), bytes) != 0;
  });
}

int64_t fcdp::byteSize(RankedTensorType type) {
  return type.getNumElements() * elementBytes(type.getElementType());
}

MeshOp fcdp::getMesh(ModuleOp module) {
  auto meshes = module.getOps<MeshOp>();
  return meshes.empty() ? MeshOp() : *meshes.begin();
}

Residency fcdp::getResidencyWithin(Residency residency, Residency carry,
                                   bool isCarried) {
  bool isOnDevice = getTier(carry).arena == Arena::device;
  // Residencies are in descending order of the device memory that they use.
  return isCarried && isOnDevice ? std::min(residency, carry) : residency;
}
