// SPDX-License-Identifier: Apache-2.0

#include "Retarget/CallBuilder.h"
#include "Verify/VerifyPhase.h"
#include "fcdp/Transforms/Options/PrecisionSpec.h"
#include "fcdp/Transforms/PipelineOptions.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/StringExtras.h"

namespace fcdp {
#define GEN_PASS_DEF_SCALELOSSPASS
#include "fcdp/Transforms/Passes.h.inc"
} // namespace fcdp

using namespace mlir;
using namespace fcdp;

namespace {
class ScaleLossPass : public fcdp::impl::ScaleLossPassBase<ScaleLossPass> {
public:
  using ScaleLossPassBase::ScaleLossPassBase;
  void runOnOperation() override;
};
} // namespace

/// Returns the operation with which the backward pass of `loss` begins.
static FailureOr<aten::CallOp> findBackward(LossOp loss) {
  SmallVector<aten::CallOp> found;
  for (Operation *user : loss.getValue().getUsers())
    if (auto call = dyn_cast<aten::CallOp>(user);
        call && call.getCallee() == "aten.ones_like.default")
      found.push_back(call);
  if (found.size() == 1)
    return found.front();
  InFlightDiagnostic diag =
      loss.emitOpError("expected one 'aten.ones_like.default' of its "
                       "value, with which the backward pass begins, "
                       "got ")
      << found.size();
  if (found.empty())
    diag << "; a step that trains nothing has no loss to scale or weight";
  for (aten::CallOp call : found)
    diag.attachNote(call.getLoc()) << "here";
  return diag;
}

/// Returns the product of the factors, which is the only one if there is one.
static Value multiply(OpBuilder &builder, Location loc,
                      ArrayRef<Value> factors) {
  if (factors.size() == 1)
    return factors.front();
  return CallBuilder(builder, loc, "aten.mul.Tensor")
      .tensor("self", factors[0])
      .tensor("other", factors[1])
      .create(factors[0].getType())
      .getResult(0);
}

/// Replaces the ones of `seed` by factors that the program sets.
static void readFactors(aten::CallOp seed, bool isWeighted, bool isScaled) {
  OpBuilder builder(seed);
  Location loc = seed.getLoc();
  auto type = cast<RankedTensorType>(seed.getResult(0).getType());
  Type element = type.getElementType();
  auto number = RankedTensorType::get({}, builder.getF32Type());
  SmallVector<Value> factors;
  if (isWeighted)
    factors.push_back(ReadLossWeightOp::create(builder, loc, number));
  if (isScaled)
    factors.push_back(ReadLossScaleOp::create(builder, loc, number));
  Value factor = multiply(builder, loc, factors);
  if (!element.isF32())
    factor = CallBuilder(builder, loc, "aten._to_copy.default")
                 .tensor("self", factor)
                 .literal("dtype", TypeAttr::get(element))
                 .create(RankedTensorType::get({}, element))
                 .getResult(0);
  if (type.getRank() != 0)
    factor = CallBuilder(builder, loc, "aten.view.default")
                 .tensor("self", factor)
                 .integers("size", type.getShape())
                 .create(type)
                 .getResult(0);
  seed.getResult(0).replaceAllUsesWith(factor);
  seed.erase();
}

template <typename ReadOp>
static bool reads(func::FuncOp step) {
  return !step.getOps<ReadOp>().empty();
}

static LogicalResult scaleLoss(func::FuncOp step, bool isWeighted,
                               bool isScaled) {
  bool isDone = (!isWeighted || reads<ReadLossWeightOp>(step)) &&
                (!isScaled || reads<ReadLossScaleOp>(step));
  if (isDone)
    return success();
  auto losses = step.getOps<LossOp>();
  if (losses.empty())
    return step->emitError("expected one loss, got 0");
  FailureOr<aten::CallOp> seed = findBackward(*losses.begin());
  if (failed(seed))
    return failure();
  readFactors(*seed, isWeighted, isScaled);
  return success();
}

static bool isRealNumber(InputOp input) {
  return !isa<ComplexType>(
      cast<RankedTensorType>(input.getType()).getElementType());
}

/// Checks that the step, or its evaluation, has an input `name` by whose
/// elements a loss can be weighted.
static LogicalResult checkWeight(ModuleOp module, StringRef name,
                                 bool ofEvaluation) {
  SmallVector<std::string> names;
  for (auto input : module.getOps<InputOp>()) {
    if (input.getEvaluation() != ofEvaluation || input.getVariant())
      continue;
    if (input.getName() == name && isRealNumber(input))
      return success();
    if (input.getName() == name)
      return module.emitError("loss-weight: expected an input of integers, "
                              "bools or floats, got '")
             << name << "' of type " << input.getType();
    names.push_back(("'" + input.getName() + "'").str());
  }
  return module.emitError("loss-weight: expected an input of the ")
         << (ofEvaluation ? "evaluation" : "step") << ", got '" << name
         << "'; its inputs are: "
         << (names.empty() ? "none" : llvm::join(names, ", "));
}

/// Makes the losses of the module weighted by the input `asked`, or by the one
/// that the module names. Fails if these differ.
static LogicalResult chooseWeight(ModuleOp module, StringRef asked,
                                  func::FuncOp step) {
  std::optional<StringRef> made = getLossWeight(module);
  if (asked.empty() && !made)
    return success();
  if (made && !asked.empty() && *made != asked)
    return module.emitError("loss-weight: expected '")
           << *made << "', by which the module's losses are weighted, got '"
           << asked << "'";
  StringRef name = made.value_or(asked);
  bool evaluates = !!module.lookupSymbol<func::FuncOp>("evaluate");
  bool isAlone = evaluates && step.getOps<LossOp>().empty();
  if ((!isAlone && failed(checkWeight(module, name, false))) ||
      (evaluates && failed(checkWeight(module, name, true))))
    return failure();
  setLossWeight(module, name);
  return success();
}

void ScaleLossPass::runOnOperation() {
  ModuleOp module = getOperation();
  FailureOr<SmallVector<func::FuncOp>> steps = requireSteps(module);
  if (failed(steps) || failed(checkOptions(module, lossScale)) ||
      failed(chooseWeight(module, lossWeight, steps->front())))
    return signalPassFailure();
  bool isScaled = llvm::cantFail(parseLossScale(lossScale));
  bool isWeighted = getLossWeight(module).has_value();
  for (func::FuncOp step : *steps) {
    // A module with only evaluations has no loss to scale, but losses to
    // weight.
    bool isEmpty = !isScaled && step.getOps<LossOp>().empty() &&
                   module.lookupSymbol("evaluate");
    if (!isEmpty && failed(scaleLoss(step, isWeighted, isScaled)))
      return signalPassFailure();
  }
}
