// SPDX-License-Identifier: Apache-2.0

#include "Trial.h"

#include "ApplyPlan.h"
#include "PhasePasses.h"
#include "fcdp/Planning/Overlap/OverlapAnalysis.h"

#include "mlir/Pass/PassManager.h"

using namespace mlir;
using namespace fcdp;

LogicalResult Trial::run(llvm::function_ref<void(OpPassManager &)> build) {
  PassManager passes(step->getContext());
  passes.enableVerifier(false); // see Trial
  build(passes);
  return passes.run(*step);
}

FailureOr<bool> Trial::schedule(const StepDecisions &plan,
                                const CostModel &model,
                                const StepChoices &choices) {
  if (failed(applyPlan(*step, plan)))
    return failure();
  choices.messages->apply(*step, &model);
  if (failed(run(buildDecided)))
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
