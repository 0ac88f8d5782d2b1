// SPDX-License-Identifier: Apache-2.0

#include "StepPlanning.h"

#include "fcdp/Simulation/StepProgram.h"
#include "fcdp/Transforms/Passes.h"
#include "fcdp/Transforms/Strategy.h"

#include "mlir/IR/Builders.h"
#include "mlir/Pass/PassManager.h"

using namespace mlir;
using namespace fcdp;

static void setIfAbsent(ModuleOp module, StringRef name,
                        std::optional<int64_t> value) {
  if (value && !module->hasAttr(name))
    module->setAttr(name,
                    Builder(module.getContext()).getI64IntegerAttr(*value));
}

void fcdp::applyPlan(ModuleOp module, const StepPlan &plan) {
  for (auto [bucket, chosen] :
       llvm::zip_equal(module.getOps<BucketOp>(), plan.residency.buckets))
    applyStrategy(bucket, {chosen.residency, chosen.carry, plan.accumulation,
                           bucket.getSharding()});
  setIfAbsent(module, kPrefetchAttr, plan.prefetch);
  setIfAbsent(module, kReductionsAttr, plan.reductions);
}

/// A given number, or those that are to be compared.
static SmallVector<int64_t> getChoices(std::optional<int64_t> given) {
  if (given)
    return {*given};
  return {1, 2, 3};
}

/// Over all distances. `why` gets the reason if no plan fits.
static std::optional<StepPlan> search(ResidencyProblem problem,
                                      Accumulation accumulation,
                                      const StepChoices &choices,
                                      std::string &why) {
  std::optional<StepPlan> best;
  for (int64_t prefetch : getChoices(choices.prefetch))
    for (int64_t reductions : getChoices(choices.reductions)) {
      problem.prefetch = prefetch;
      problem.reductions = reductions;
      llvm::Expected<ResidencySolution> found = planResidency(problem);
      if (!found)
        why = toString(found.takeError());
      else if (!best || isBetter(found->estimate, best->residency.estimate))
        best = StepPlan{std::move(*found), accumulation, prefetch, reductions};
    }
  return best;
}

/// Adds what presets would do, as far as it fits, at the distances of `best`
/// and of presets.
static void addUniform(ResidencyProblem problem, const StepPlan &best,
                       const StepChoices &choices,
                       std::vector<StepPlan> &plans) {
  auto add = [&](int64_t prefetch, int64_t reductions, Residency residency) {
    problem.prefetch = choices.prefetch.value_or(prefetch);
    problem.reductions = choices.reductions.value_or(reductions);
    ResidencySolution solution;
    for (const ResidencyProblem::Bucket &bucket : problem.buckets)
      solution.buckets.push_back({bucket.residency.value_or(residency),
                                  bucket.carry.value_or(residency)});
    solution.estimate = estimate(problem, solution.buckets);
    if (llvm::Error error = solution.verify(problem))
      return llvm::consumeError(std::move(error)); // does not fit
    plans.push_back({std::move(solution), best.accumulation, problem.prefetch,
                     problem.reductions});
  };
  for (Residency residency :
       {Residency::drop, Residency::host, Residency::node, Residency::full}) {
    add(*best.prefetch, *best.reductions, residency);
    add(kDefaultPrefetch, kDefaultReductions, residency);
  }
}

/// What a step takes with the schedule that `plan` leads to.
static FailureOr<ResidencyEstimate> simulate(ModuleOp module,
                                             const StepPlan &plan,
                                             const CostModel &model,
                                             int64_t deviceBudget) {
  OwningOpRef<ModuleOp> copy(cast<ModuleOp>(module->clone()));
  applyPlan(*copy, plan);
  PassManager decided(module.getContext());
  buildDecided(decided);
  PassManager scheduled(module.getContext());
  buildScheduled(scheduled);
  if (failed(decided.run(*copy)) ||
      failed(decideOverlap(*copy, model, deviceBudget)) ||
      failed(scheduled.run(*copy)))
    return failure();
  StepProgram program =
      makeStepProgram(*copy, [&](Operation *op) { return model.costOf(op); });
  ResidencyEstimate taken = plan.residency.estimate;
  taken.seconds = simulateStep(program).seconds;
  return taken;
}

namespace {
/// What has been simulated.
struct Simulated {
  StepPlan plan;
  ResidencyEstimate taken;
};
} // namespace

static LogicalResult simulateAll(ModuleOp module, ArrayRef<StepPlan> plans,
                                 const CostModel &model, int64_t deviceBudget,
                                 std::vector<Simulated> &simulated) {
  for (const StepPlan &plan : plans) {
    FailureOr<ResidencyEstimate> taken =
        simulate(module, plan, model, deviceBudget);
    if (failed(taken))
      return failure();
    simulated.push_back({plan, *taken});
  }
  return success();
}

/// The best of `plans`, and of the few best of them with each fetch and each
/// sum at a distance of its own.
static FailureOr<StepPlan> takeFastest(ModuleOp module,
                                       ArrayRef<StepPlan> plans,
                                       const CostModel &model,
                                       const StepChoices &choices) {
  constexpr size_t kRefined = 3;
  std::vector<Simulated> simulated;
  int64_t budget = choices.budget.device;
  if (failed(simulateAll(module, plans, model, budget, simulated)))
    return failure();
  llvm::sort(simulated, [](const Simulated &a, const Simulated &b) {
    return a.taken.seconds < b.taken.seconds;
  });
  std::vector<StepPlan> refined;
  for (const Simulated &one :
       ArrayRef(simulated).take_front(std::min(kRefined, simulated.size()))) {
    refined.push_back(one.plan);
    refined.back().prefetch = choices.prefetch;
    refined.back().reductions = choices.reductions;
  }
  if (!(choices.prefetch && choices.reductions) &&
      failed(simulateAll(module, refined, model, budget, simulated)))
    return failure();
  return llvm::min_element(simulated,
                           [](const Simulated &a, const Simulated &b) {
                             return isBetter(a.taken, b.taken);
                           })
      ->plan;
}

FailureOr<StepPlan> fcdp::planStep(ModuleOp module, const CostModel &model,
                                   const StepChoices &choices) {
  std::vector<StepPlan> finalists;
  std::string why;
  for (Accumulation accumulation : choices.accumulations) {
    ResidencyProblem problem =
        makeResidencyProblem(module, model, choices.budget, accumulation);
    std::optional<StepPlan> best = search(problem, accumulation, choices, why);
    if (!best)
      continue;
    finalists.push_back(*best);
    addUniform(problem, *best, choices, finalists);
  }
  if (finalists.empty())
    return module.emitError("strategy 'auto': ") << why;
  return takeFastest(module, finalists, model, choices);
}
