// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Import/Evaluation.h"

#include "AddedProgram.h"
#include "dialects/Aten/Aten.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace fcdp;

/// Erases gradients, and all operations that only they need. Random numbers
/// that are drawn after the loss do not change it.
static LogicalResult keepLossOnly(func::FuncOp function) {
  for (auto write : function.getOps<WriteBufferOp>())
    return function->getParentOp()->emitError(
               "the evaluation changes the buffer @")
           << write.getTarget()
           << ", which only a step may: export it after model.eval()";
  Operation *last = nullptr;
  for (auto loss : function.getOps<LossOp>())
    last = loss.getValue().getDefiningOp();
  for (Operation &op :
       llvm::make_early_inc_range(llvm::reverse(function.front()))) {
    bool isBehind = isa<aten::CallOp>(op) && op.use_empty() && last &&
                    last->isBeforeInBlock(&op);
    if (isa<GradientOp>(op) || isBehind || isOpTriviallyDead(&op))
      op.erase();
  }
  return success();
}

LogicalResult fcdp::evaluateAlone(ModuleOp module) {
  auto function = module.lookupSymbol<func::FuncOp>("step");
  if (getPhase(module) != Phase::imported || !function)
    return module.emitError("expected a step in phase 'imported', as "
                            "fcdp.export writes it, to evaluate");
  if (failed(keepLossOnly(function)))
    return failure();
  for (auto parameter : module.getOps<ParameterOp>())
    parameter.setTrainable(false);
  for (auto input : module.getOps<InputOp>())
    input.setEvaluation(true);
  OpBuilder builder(function);
  auto step = func::FuncOp::create(builder, function.getLoc(), "step",
                                   builder.getFunctionType({}, {}));
  OpBuilder body = OpBuilder::atBlockBegin(step.addEntryBlock());
  func::ReturnOp::create(body, step.getLoc());
  function.setSymName("evaluate");
  return success();
}

LogicalResult fcdp::addEvaluation(ModuleOp module, ModuleOp evaluation) {
  AddedProgram program(module, evaluation, "the evaluation", "evaluation.");
  if (failed(program.checkSame()) || failed(program.matchParameters()))
    return failure();
  auto setOwn = [](BufferOp own) {
    own.setEvaluation(true);
    return success();
  };
  if (failed(keepLossOnly(evaluation.lookupSymbol<func::FuncOp>("step"))) ||
      failed(program.takeBuffers(setOwn)))
    return failure();
  for (InputOp input : llvm::to_vector(evaluation.getOps<InputOp>())) {
    input.setEvaluation(true);
    program.takeInput(input);
  }
  program.takeFunction("evaluate");
  if (std::optional<StringRef> archive = getArchive(evaluation))
    setEvaluationArchive(module, *archive);
  return success();
}
