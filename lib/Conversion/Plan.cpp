// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Conversion/Plan.h"

#include "BufferWrites.h"
#include "Calls.h"
#include "ConstantTable.h"
#include "PlanFunctions.h"
#include "PlanOps.h"
#include "PlanSymbols.h"
#include "PlanValues.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace fcdp;

static LogicalResult fillHead(plan::PlanT &plan, ModuleOp module) {
  std::optional<int64_t> microBatches = findMicroBatches(module);
  if (!microBatches)
    return module.emitError("expected the attribute '")
           << FcdpDialect::MicroBatchesAttrHelper::getNameStr() << "'";
  plan.microBatches = *microBatches;
  plan.target = findByName(getTarget(module), plan::EnumValuesTarget(),
                           plan::EnumNamesTarget());
  if (std::optional<StringRef> strategy = getStrategy(module))
    plan.strategy = strategy->str();
  MeshOp mesh = getMesh(module);
  plan.nodes = mesh.getNode();
  plan.ranksPerNode = mesh.getLocal();
  return success();
}

static LogicalResult checkModule(ModuleOp module) {
  if (getPhase(module) != Phase::planned)
    return module.emitError("expected a module in phase 'planned'; run "
                            "--fcdp-pipeline first");
  if (!getMesh(module))
    return module.emitError("expected a mesh");
  return success();
}

FailureOr<CompiledPlan> fcdp::buildPlan(ModuleOp module,
                                        TensorReader readTensor) {
  if (failed(checkModule(module)))
    return failure();
  FailureOr<Places> places = Places::compute(module);
  if (failed(places))
    return failure();
  FailureOr<std::vector<Operation *>> calls = collectCalls(module, *places);
  if (failed(calls))
    return failure();
  for (auto function : module.getOps<func::FuncOp>())
    if (failed(verifyBufferWrites(function)))
      return failure();
  FailureOr<ConstantTable> constants = ConstantTable::read(module, readTensor);
  if (failed(constants))
    return failure();

  CompiledPlan compiled;
  SlotTable slots(module, *places, *calls);
  if (failed(fillHead(compiled.plan, module)) ||
      failed(fillSymbols(compiled.plan, module, *places, *constants)) ||
      failed(fillFunctions(compiled.plan, module, *calls)) ||
      failed(slots.fill(compiled.plan)) ||
      failed(fillOps(compiled.plan, module, *places, slots, *calls)))
    return failure();
  compiled.constants = std::move(constants->bytes);
  compiled.plan.constantsHash = hashBytes(compiled.constants);
  return compiled;
}
