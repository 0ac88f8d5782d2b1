// SPDX-License-Identifier: Apache-2.0

#include "dialects/Fcdp/Fcdp.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

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

/// Where each of the dialect's own attributes may stand, and as what.
LogicalResult FcdpDialect::verifyOperationAttribute(Operation *op,
                                                    NamedAttribute attr) {
  StringRef name = attr.getName().strref();
  auto expect = [&](bool holds, StringRef what) -> LogicalResult {
    if (holds)
      return success();
    return op->emitError("attribute '") << name << "' must be " << what
                                        << ", got '" << attr.getValue() << "'";
  };
  if (name == kPhaseAttr)
    return expect(isa<ModuleOp>(op) && isa<PhaseAttr>(attr.getValue()),
                  "a phase on a module");
  if (name == kRoleAttr)
    return expect(isa<func::FuncOp>(op) && isa<RoleAttr>(attr.getValue()),
                  "a role on a function");
  if (name == kArchiveAttr || name == kStrategyAttr)
    return expect(isa<ModuleOp>(op) && isa<StringAttr>(attr.getValue()),
                  "a string on a module");
  if (name == kMicroBatchesAttr) {
    auto value = dyn_cast<IntegerAttr>(attr.getValue());
    return expect(isa<ModuleOp>(op) && value && value.getInt() > 0,
                  "a positive integer on a module");
  }
  return op->emitError("unknown attribute '") << name << "'";
}

int64_t fcdp::elementBytes(Type type) {
  if (auto complex = dyn_cast<ComplexType>(type))
    return 2 * elementBytes(complex.getElementType());
  return (type.getIntOrFloatBitWidth() + 7) / 8;
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
