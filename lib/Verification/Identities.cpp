// SPDX-License-Identifier: Apache-2.0
//
// Proves that calls read the parameters, and packs take the gradients, that the
// model has at these places.

#include "fcdp/Analysis/Identities.h"

#include "dialects/Aten/Aten.h"
#include "fcdp/Analysis/Aliases.h"
#include "fcdp/Verification/PlanProofs.h"

using namespace mlir;
using namespace fcdp;

/// Returns "@w", or "no parameter".
static std::string spell(Attribute entry) {
  auto name = dyn_cast<FlatSymbolRefAttr>(entry);
  return name ? ("@" + name.getValue()).str() : "no parameter";
}

static LogicalResult verifyOperands(func::FuncOp function, Operation &op) {
  ArrayAttr named = getParameterOperands(&op);
  ArrayAttr found = findParameterOperands(&op);
  if (named == found)
    return success();
  auto unit = UnitAttr::get(op.getContext());
  for (unsigned i = 0; i < op.getNumOperands(); ++i) {
    Attribute expected = named ? named[i] : unit, got = found ? found[i] : unit;
    if (expected != got)
      return op.emitOpError("in @")
             << function.getSymName() << ": expected " << spell(expected)
             << " as operand " << i << ", as its attribute 'fcdp.parameters' "
             << "names it, got " << spell(got);
  }
  return success();
}

static LogicalResult verifyGradients(func::FuncOp function, PackOp pack) {
  for (auto [value, attr] :
       llvm::zip_equal(pack.getValues(), pack.getParameters())) {
    auto result = dyn_cast<OpResult>(value);
    auto name = cast<FlatSymbolRefAttr>(attr);
    // Values of other operations, such as a parameter or an input, do not name
    // the parameters whose gradients they are.
    if (!result || !isa<aten::CallOp>(result.getOwner()))
      continue;
    ArrayAttr all = getGradientResults(result.getOwner());
    ArrayAttr names =
        all ? cast<ArrayAttr>(all[result.getResultNumber()]) : ArrayAttr();
    if (names && llvm::is_contained(names, name))
      continue;
    InFlightDiagnostic diag =
        pack.emitOpError("in @")
        << function.getSymName() << ": expected the gradient of " << spell(name)
        << ", got "
        << (names && !names.empty() ? "that of " + spell(names[0])
                                    : std::string("no gradient"));
    diag.attachNote(result.getOwner()->getLoc())
        << "the attribute 'fcdp.gradients' of this call names those that it "
           "computes";
    return diag;
  }
  return success();
}

LogicalResult fcdp::verifyIdentities(ModuleOp module) {
  for (auto function : module.getOps<func::FuncOp>())
    for (Operation &op : function.front()) {
      if (failed(verifyOperands(function, op)))
        return failure();
      if (auto pack = dyn_cast<PackOp>(op))
        if (failed(verifyGradients(function, pack)))
          return failure();
    }
  return success();
}
