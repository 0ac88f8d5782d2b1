// SPDX-License-Identifier: Apache-2.0

#include "dialects/Fcdp/Fcdp.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/CheckedArithmetic.h"

using namespace mlir;
using namespace fcdp;

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
  if (!isa<FloatType>(whole.getElementType()) || !hasByteSize(whole)) // C1
    return emitError() << "expected a static tensor of floats, got " << whole;
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
  if ((kind == LayoutKind::ragged) != (rows != 0) || rows < 0) // C1
    return emitError() << "expected 'flat', 'ragged<rows>' with a positive "
                          "number of rows or 'owned', got '"
                       << stringifyLayoutKind(kind) << '<' << rows << ">'";
  return success();
}

int64_t LayoutAttr::getBlockElements(RankedTensorType tensor) const {
  int64_t elements = tensor.getNumElements(), rank = tensor.getRank();
  if (elements == 0 || rank == 0 || getKind() == LayoutKind::flat)
    return 1;
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

/// Verifies C1 of the optimizers for one number.
static LogicalResult verifyNumber(function_ref<InFlightDiagnostic()> emitError,
                                  StringRef name, FloatAttr number,
                                  bool negative = false) {
  if (number.getType().isF64() && number.getValue().isFinite() &&
      (negative || number.getValueAsDouble() >= 0))
    return success();
  return emitError() << "expected '" << name << "' to be a finite f64"
                     << (negative ? "" : " from 0 on") << ", got " << number;
}

LogicalResult AdamWAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                FloatAttr lr, FloatAttr beta1, FloatAttr beta2,
                                FloatAttr eps, FloatAttr weightDecay) {
  if (failed(verifyNumber(emitError, "lr", lr)) ||
      failed(verifyNumber(emitError, "beta1", beta1)) ||
      failed(verifyNumber(emitError, "beta2", beta2)) ||
      failed(verifyNumber(emitError, "eps", eps)) ||
      failed(verifyNumber(emitError, "weight_decay", weightDecay)))
    return failure();
  for (FloatAttr beta : {beta1, beta2})
    if (beta.getValueAsDouble() >= 1) // C2
      return emitError() << "expected a beta below 1, got " << beta;
  return success();
}

LogicalResult SGDAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                              FloatAttr lr, FloatAttr momentum,
                              FloatAttr dampening, FloatAttr weightDecay,
                              bool nesterov) {
  if (failed(verifyNumber(emitError, "lr", lr)) ||
      failed(verifyNumber(emitError, "momentum", momentum)) ||
      failed(verifyNumber(emitError, "dampening", dampening,
                          /*negative=*/true)) ||
      failed(verifyNumber(emitError, "weight_decay", weightDecay)))
    return failure();
  if (nesterov && (momentum.getValueAsDouble() == 0 ||
                   dampening.getValueAsDouble() != 0)) // C2
    return emitError() << "'nesterov' needs momentum and no dampening";
  return success();
}

/// Verifies C1 of fcdp.state: a bucket has at most one state of each role. It
/// is checked once per module, because a search from each state would be
/// quadratic.
static LogicalResult verifyStates(ModuleOp module) {
  llvm::DenseMap<std::pair<Attribute, Attribute>, StateOp> seen;
  for (auto state : module.getOps<StateOp>()) {
    FlatSymbolRefAttr bucket = state.getBucketAttr();
    StateRoleAttr role = state.getRoleAttr();
    // The module's attributes are verified before its operations.
    if (!bucket || !role)
      continue;
    auto [previous, isNew] = seen.try_emplace({bucket, role}, state);
    if (isNew)
      continue;
    InFlightDiagnostic diag = state.emitOpError("expected one state '")
                              << stringifyStateRole(role.getValue()) << "' of "
                              << bucket;
    diag.attachNote(previous->second.getLoc()) << "the other is here";
    return diag;
  }
  return success();
}

bool fcdp::isTarget(StringRef name) { return name == "cpu" || name == "cuda"; }

static bool isDimOrder(Operation *op, Attribute attr) {
  auto order = dyn_cast<DenseI64ArrayAttr>(attr);
  if (!order || op->getNumResults() == 0)
    return false;
  SmallVector<int64_t> sorted(order.asArrayRef());
  llvm::sort(sorted);
  auto type = dyn_cast<RankedTensorType>(op->getResult(0).getType());
  return type && llvm::equal(sorted, llvm::seq<int64_t>(0, type.getRank()));
}

/// Verifies the operation and the type of each discardable attribute of the
/// dialect.
LogicalResult FcdpDialect::verifyOperationAttribute(Operation *op,
                                                    NamedAttribute attr) {
  StringRef name = attr.getName().strref();
  auto expect = [&](bool holds, StringRef what) -> LogicalResult {
    if (holds)
      return success();
    return op->emitError("attribute '") << name << "' must be " << what
                                        << ", got '" << attr.getValue() << "'";
  };
  if (name == kPhaseAttr) {
    auto module = dyn_cast<ModuleOp>(op);
    if (!module || !isa<PhaseAttr>(attr.getValue()))
      return expect(false, "a phase on a module");
    return verifyStates(module);
  }
  if (name == kRoleAttr)
    return expect(isa<func::FuncOp>(op) && isa<RoleAttr>(attr.getValue()),
                  "a role on a function");
  if (name == kRecomputeAttr)
    return expect(op->getName().getStringRef() == "aten.call" &&
                      isa<BoolAttr>(attr.getValue()),
                  "a bool on a call");
  if (name == kRepeatedAttr)
    return expect(op->getName().getStringRef() == "aten.call" &&
                      isa<UnitAttr>(attr.getValue()),
                  "a unit on a call");
  if (name == kTargetAttr) {
    auto target = dyn_cast<StringAttr>(attr.getValue());
    return expect(isa<ModuleOp>(op) && target && isTarget(target.getValue()),
                  "'cpu' or 'cuda' on a module");
  }
  if (name == kDimOrderAttr)
    return expect(op->getName().getStringRef() == "aten.call" &&
                      isDimOrder(op, attr.getValue()),
                  "a permutation of the dimensions of a call's first result");
  if (name == kArchiveAttr || name == kStrategyAttr || name == kRematAttr)
    return expect(isa<ModuleOp>(op) && isa<StringAttr>(attr.getValue()),
                  "a string on a module");
  auto isI64From = [&](int64_t least) {
    auto value = dyn_cast<IntegerAttr>(attr.getValue());
    return value && value.getType().isSignlessInteger(64) &&
           value.getInt() >= least;
  };
  if (name == kMicroBatchesAttr || name == kBucketBytesAttr)
    return expect(isa<ModuleOp>(op) && isI64From(1),
                  "a positive i64 on a module");
  if (name == kReductionsAttr)
    return expect(isa<ModuleOp, AccumulateOp, CacheStoreOp>(op) && isI64From(1),
                  "a positive i64 on a module or a sum");
  if (name == kPrefetchedAttr || name == kOpenShardingAttr ||
      name == kOpenMergingAttr)
    return expect(isa<ModuleOp>(op) && isa<UnitAttr>(attr.getValue()),
                  "a unit on a module");
  if (name == kPrefetchAttr)
    return expect(isa<ModuleOp, AllGatherOp, CacheLoadOp>(op) && isI64From(0),
                  "an i64 from 0 on, on a module, a gather or a load");
  return op->emitError("unknown attribute '") << name << "'";
}

LogicalResult FcdpDialect::verifyRegionArgAttribute(Operation *op, unsigned,
                                                    unsigned index,
                                                    NamedAttribute attr) {
  if (attr.getName() == kEventAttr) {
    auto function = dyn_cast<func::FuncOp>(op);
    auto event = dyn_cast<IntegerAttr>(attr.getValue());
    if (function && isa<TokenType>(function.getArgumentTypes()[index]) &&
        event && event.getType().isSignlessInteger(64) && event.getInt() >= 0)
      return success();
    return op->emitError("attribute '")
           << kEventAttr << "' must be an i64 from 0 on, on a token, got '"
           << attr.getValue() << "' on argument " << index;
  }
  return op->emitError("unknown attribute '")
         << attr.getName().strref() << "' on argument " << index;
}

LogicalResult FcdpDialect::verifyRegionResultAttribute(Operation *op, unsigned,
                                                       unsigned index,
                                                       NamedAttribute attr) {
  return op->emitError("unknown attribute '")
         << attr.getName().strref() << "' on result " << index;
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
  std::optional<int64_t> bytes = elementBytes(type.getElementType());
  for (int64_t size : type.getShape())
    if (bytes)
      bytes = llvm::checkedMul(*bytes, std::max<int64_t>(size, 1));
  return bytes.has_value();
}

int64_t fcdp::byteSize(RankedTensorType type) {
  return type.getNumElements() * elementBytes(type.getElementType());
}

std::optional<Phase> fcdp::getPhase(ModuleOp module) {
  if (auto attr = module->getAttrOfType<PhaseAttr>(kPhaseAttr))
    return attr.getValue();
  return std::nullopt;
}

void fcdp::setPhase(ModuleOp module, Phase phase) {
  module->setAttr(kPhaseAttr, PhaseAttr::get(module.getContext(), phase));
}

MeshOp fcdp::getMesh(ModuleOp module) {
  auto meshes = module.getOps<MeshOp>();
  return meshes.empty() ? MeshOp() : *meshes.begin();
}

int64_t fcdp::getMicroBatches(ModuleOp module) {
  auto count = module->getAttrOfType<IntegerAttr>(kMicroBatchesAttr);
  return count ? count.getInt() : 1;
}

Residency fcdp::getResidencyWithin(Residency residency, Residency carry,
                                   bool isCarried) {
  bool isOnDevice = carry == Residency::full || carry == Residency::node;
  // Residencies are in descending order of the device memory that they use.
  return isCarried && isOnDevice ? std::min(residency, carry) : residency;
}
