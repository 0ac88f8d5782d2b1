// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Conversion/Plan.h"

#include "PlanParts.h"
#include "PlanValues.h"

using namespace mlir;
using namespace fcdp;

static LogicalResult fillHead(plan::PlanT &plan, ModuleOp module) {
  std::optional<int64_t> microBatches = findMicroBatches(module);
  if (!microBatches)
    return module.emitError("expected the attribute '")
           << FcdpDialect::MicroBatchesAttrHelper::getNameStr() << "'";
  plan.microBatches = *microBatches;
  plan.target = findByName<plan::Target>(stringifyTarget(getTarget(module)),
                                         plan::EnumNamesTarget());
  if (std::optional<StringRef> strategy = getStrategy(module))
    plan.strategy = strategy->str();
  if (std::optional<StringRef> input = getLossWeight(module))
    plan.lossWeight = input->str();
  fillSynchronization(plan, module);
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
                                        DeviceMemoryAnalysis &memory,
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
  FailureOr<const DeviceMemory *> measured = memory.get();
  if (failed(measured))
    return failure();

  CompiledPlan compiled;
  plan::PlanT &plan = compiled.plan;
  if (failed(fillHead(plan, module)) ||
      failed(
          fillSymbols(plan, compiled.constants, module, *places, readTensor)))
    return failure();
  if (failed(fillKernels(plan, module)))
    return failure();
  fillFunctions(plan, module, **measured, *calls);
  FailureOr<SlotTable> slots = SlotTable::fill(plan, module, *places, *calls);
  if (failed(slots) || failed(fillOps(plan, *places, *slots, *calls)))
    return failure();
  plan.constantsHash = hashBytes(compiled.constants);
  return compiled;
}
