// SPDX-License-Identifier: Apache-2.0

#include "Trial.h"

#include "ApplyPlan.h"
#include "PhasePasses.h"
#include "fcdp/Planning/Overlap/OverlapAnalysis.h"
#include "fcdp/Transforms/Passes.h"

#include "mlir/Pass/PassManager.h"

using namespace mlir;
using namespace fcdp;

LogicalResult Trial::run(llvm::function_ref<void(OpPassManager &)> build) {
  PassManager passes(step->getContext());
  passes.enableVerifier(false); // see Trial
  build(passes);
  return passes.run(*step);
}

LogicalResult Trial::decide(const StepDecisions &plan, const CostModel &model,
                            const StepChoices &choices) {
  if (failed(applyPlan(*step, plan)) || failed(run([&](OpPassManager &passes) {
        OuterStepsPassOptions options;
        options.outer = choices.outer;
        passes.addPass(createOuterStepsPass(std::move(options)));
      })))
    return failure();
  choices.messages->apply(*step, &model);
  return success();
}

FailureOr<bool> Trial::schedule(const StepDecisions &plan,
                                const CostModel &model,
                                const StepChoices &choices) {
  if (failed(decide(plan, model, choices)) || failed(run(buildDecided)))
    return failure();
  if (llvm::Error error = decideOverlap(*step, model, choices.budget.device)) {
    llvm::consumeError(std::move(error));
    return false;
  }
  if (failed(run([&](OpPassManager &passes) {
        buildScheduled(passes, model.getCluster());
      })))
    return failure();
  return true;
}
