// SPDX-License-Identifier: Apache-2.0
//
// Defines the verifier passes of the four phases.

#include "VerifyPhase.h"
#include "dialects/Fcdp/Kernels.h"

#include "mlir/IR/Builders.h"

namespace fcdp {
#define GEN_PASS_DEF_VERIFYIMPORTEDPASS
#define GEN_PASS_DEF_VERIFYSHARDEDPASS
#define GEN_PASS_DEF_VERIFYSCHEDULEDPASS
#define GEN_PASS_DEF_VERIFYPLANNEDPASS
#include "fcdp/Transforms/Passes.h.inc"
} // namespace fcdp

using namespace mlir;
using namespace fcdp;

/// Returns whether the results of a call have sizes that can be planned.
static bool hasSizes(Operation *op) {
  return !isa<aten::CallOp>(op) ||
         llvm::all_of(op->getResultTypes(), [](Type type) {
           return hasByteSize(cast<RankedTensorType>(type));
         });
}

/// Checks the module's phase and that each operation may appear in it.
template <template <typename> class InPhase>
static LogicalResult verifyOps(ModuleOp module, Phase phase) {
  if (getPhase(module) != phase)
    return module.emitError("expected a module in phase '")
           << stringifyPhase(phase) << "'";
  WalkResult result = module.walk([&](Operation *op) {
    bool legal =
        isa<ModuleOp, func::FuncOp, func::ReturnOp, aten::CallOp>(op) ||
        op->hasTrait<InPhase>() || isa<KernelOp>(op->getParentOp());
    if (legal && !hasSizes(op)) {
      op->emitOpError("expected results whose bytes are known, got ")
          << op->getResultTypes();
      return WalkResult::interrupt();
    }
    if (legal)
      return WalkResult::advance();
    op->emitOpError("may not appear in phase '")
        << stringifyPhase(phase) << "'";
    return WalkResult::interrupt();
  });
  return failure(result.wasInterrupted() || failed(verifyKernelCalls(module)));
}

//===----------------------------------------------------------------------===//
// Imported
//===----------------------------------------------------------------------===//

/// Returns whether `function` is one block without arguments and results.
static bool isImportedFunction(func::FuncOp function) {
  return function && function.getBody().hasOneBlock() &&
         function.getFunctionType() ==
             FunctionType::get(function.getContext(), {}, {});
}

static LogicalResult verifyOneLoss(func::FuncOp function) {
  size_t losses = llvm::range_size(function.getOps<LossOp>());
  if (losses == 1)
    return success();
  return function.emitError("expected one loss, got ") << losses;
}

/// Checks that functions share no inputs and constants.
static LogicalResult verifyOwnReads(ModuleOp module, func::FuncOp evaluation) {
  for (auto function : module.getOps<func::FuncOp>()) {
    int64_t variant = findVariant(function).value_or(0);
    for (auto read : function.getOps<ReadInputOp>()) {
      auto input = module.lookupSymbol<InputOp>(read.getSourceAttr().getAttr());
      if (input && (input.getEvaluation() != (function == evaluation) ||
                    input.getVariant().value_or(0) != uint64_t(variant)))
        return read.emitOpError("expected an input of @")
               << function.getSymName() << ", got @" << input.getSymName();
    }
    for (auto read : function.getOps<ReadBufferOp>()) {
      auto buffer =
          module.lookupSymbol<BufferOp>(read.getSourceAttr().getAttr());
      if (buffer && buffer.getVariant() &&
          *buffer.getVariant() != uint64_t(variant))
        return read.emitOpError("expected a buffer of @")
               << function.getSymName() << ", got @" << buffer.getSymName();
    }
  }
  return success();
}

/// Checks that an evaluation changes nothing.
static LogicalResult verifyImportedEvaluation(func::FuncOp evaluation) {
  for (Operation &op : evaluation.front())
    if (isa<GradientOp, WriteBufferOp>(op))
      return op.emitOpError("may not appear in @evaluate");
  return verifyOneLoss(evaluation);
}

/// Checks the gradients of one variant.
static LogicalResult verifyGradients(ModuleOp module, func::FuncOp step) {
  llvm::DenseMap<StringAttr, int> gradients;
  for (auto gradient : step.getOps<GradientOp>())
    ++gradients[gradient.getParameterAttr().getAttr()];
  for (auto parameter : module.getOps<ParameterOp>())
    if (int count = gradients.lookup(parameter.getSymNameAttr());
        count != parameter.getTrainable()) {
      InFlightDiagnostic diag = parameter.emitOpError("expected ");
      diag << (parameter.getTrainable() ? "one gradient" : "no gradient")
           << ", got " << count;
      if (findVariant(step))
        diag << " in @" << step.getSymName();
      return diag;
    }
  return success();
}

static LogicalResult verifyImported(ModuleOp module) {
  if (failed(verifyOps<InImported>(module, Phase::imported)))
    return failure();
  FailureOr<SmallVector<func::FuncOp>> steps = requireSteps(module);
  if (failed(steps))
    return failure();
  func::FuncOp evaluation = findEvaluation(module);
  size_t functions = llvm::range_size(module.getOps<func::FuncOp>());
  if (steps->size() + (evaluation ? 1 : 0) != functions)
    return module.emitError("expected one function, @step, of one block, its "
                            "variants, if it has several shapes, and perhaps "
                            "an evaluation, @evaluate");
  // A module with only an evaluation has a step that does nothing.
  bool isAlone = evaluation && llvm::hasSingleElement(steps->front().front());
  for (func::FuncOp step : *steps)
    if ((!isAlone && failed(verifyOneLoss(step))) ||
        failed(verifyGradients(module, step)))
      return failure();
  if (failed(verifyOwnReads(module, evaluation)))
    return failure();
  return success(!evaluation ||
                 succeeded(verifyImportedEvaluation(evaluation)));
}

FailureOr<func::FuncOp> fcdp::requireImported(ModuleOp module) {
  if (getPhase(module) != Phase::imported)
    return module.emitError("expected a module in phase 'imported'");
  auto step = module.lookupSymbol<func::FuncOp>("step");
  if (!isImportedFunction(step))
    return module.emitError(
        "expected a function @step of one block, without arguments or results");
  return step;
}

FailureOr<SmallVector<func::FuncOp>> fcdp::requireSteps(ModuleOp module) {
  FailureOr<func::FuncOp> step = requireImported(module);
  if (failed(step))
    return failure();
  SmallVector<func::FuncOp> steps{*step};
  while (auto next = module.lookupSymbol<func::FuncOp>(
             ("step." + Twine(steps.size())).str())) {
    if (!isImportedFunction(next))
      return next.emitError("expected one block, no arguments and no results");
    steps.push_back(next);
  }
  for (auto [variant, function] : llvm::enumerate(steps)) {
    std::optional<int64_t> given = findVariant(function);
    if (steps.size() == 1 ? given.has_value() : given != int64_t(variant))
      return func::FuncOp(function).emitError("expected ")
             << (steps.size() == 1 ? "no variant"
                                   : "variant " + std::to_string(variant));
  }
  return steps;
}

func::FuncOp fcdp::findEvaluation(ModuleOp module) {
  auto evaluation = module.lookupSymbol<func::FuncOp>("evaluate");
  return isImportedFunction(evaluation) ? evaluation : func::FuncOp();
}

//===----------------------------------------------------------------------===//
// Sharded
//===----------------------------------------------------------------------===//

static LogicalResult verifySharded(ModuleOp module) {
  if (failed(verifyOps<InSharded>(module, Phase::sharded)))
    return failure();
  return verifySteps(module);
}

//===----------------------------------------------------------------------===//
// Scheduled
//===----------------------------------------------------------------------===//

bool fcdp::staysWhole(CollectiveOpInterface op, const SymbolTable &symbols,
                      MeshOp mesh) {
  auto bucket = symbols.lookup<BucketOp>(op.getSourceAttr().getAttr());
  return bucket && (op.isOfGradient() ? reducesFlat(bucket, mesh)
                                      : gathersFlat(bucket, mesh));
}

static LogicalResult verifyOneLevel(CollectiveOpInterface op,
                                    const SymbolTable &symbols, MeshOp mesh) {
  if (isa<RankedTensorType>(op.getInput().getType()) &&
      isa<RankedTensorType>(op->getResult(0).getType()) &&
      (op.getAxes().size() == 1 || staysWhole(op, symbols, mesh)))
    return success();
  return op->emitOpError("expected one axis and flat tensors; run "
                         "--fcdp-bucket and --fcdp-two-level first");
}

LogicalResult fcdp::verifyOneLevel(ModuleOp module) {
  SymbolTable symbols(module);
  MeshOp mesh = getMesh(module);
  WalkResult result = module.walk([&](CollectiveOpInterface op) {
    return failed(::verifyOneLevel(op, symbols, mesh)) ? WalkResult::interrupt()
                                                       : WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

static LogicalResult verifyStreams(Operation *op) {
  auto streamed = dyn_cast<StreamedOpInterface>(op);
  if (!streamed || streamed.getStreamAttr() ||
      streamed.chooseStream() == Stream::compute)
    return success();
  return op->emitOpError("expected a stream");
}

/// Checks the properties that hold from phase scheduled on.
static LogicalResult verifyOrder(ModuleOp module) {
  WalkResult result = module.walk([&](Operation *op) {
    if (failed(verifyStreams(op)))
      return WalkResult::interrupt();
    if (!isBuffered(op))
      return WalkResult::advance();
    auto releases = llvm::count_if(
        op->getUsers(), [](Operation *user) { return isa<ReleaseOp>(user); });
    if (releases == 1)
      return WalkResult::advance();
    op->emitOpError("expected one release of its result, got ") << releases;
    return WalkResult::interrupt();
  });
  return failure(result.wasInterrupted() || failed(verifyOneLevel(module)) ||
                 failed(verifyCommunicators(module)));
}

static LogicalResult verifyScheduled(ModuleOp module) {
  if (failed(verifyOps<InScheduled>(module, Phase::scheduled)) ||
      failed(verifySteps(module)))
    return failure();
  return verifyOrder(module);
}

//===----------------------------------------------------------------------===//
// Planned
//===----------------------------------------------------------------------===//

static LogicalResult verifyPlanned(ModuleOp module) {
  if (failed(verifyOps<InPlanned>(module, Phase::planned)) ||
      failed(verifySteps(module)) || failed(verifyOrder(module)) ||
      failed(verifyEvents(module)))
    return failure();
  return verifyBuffers(module);
}

namespace {
#define FCDP_VERIFY_PASS(PHASE)                                                \
  class Verify##PHASE##Pass                                                    \
      : public fcdp::impl::Verify##PHASE##PassBase<Verify##PHASE##Pass> {      \
    void runOnOperation() override {                                           \
      if (failed(verify##PHASE(getOperation())))                               \
        signalPassFailure();                                                   \
    }                                                                          \
  };
FCDP_VERIFY_PASS(Imported)
FCDP_VERIFY_PASS(Sharded)
FCDP_VERIFY_PASS(Scheduled)
FCDP_VERIFY_PASS(Planned)
#undef FCDP_VERIFY_PASS
} // namespace
