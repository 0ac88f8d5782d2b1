// SPDX-License-Identifier: Apache-2.0

#include "StepPlanning.h"

#include "fcdp/Analysis/DeviceMemory.h"
#include "fcdp/Simulation/StepProgram.h"
#include "fcdp/Transforms/Passes.h"
#include "fcdp/Transforms/Strategy.h"

#include "mlir/IR/Builders.h"
#include "mlir/Pass/PassManager.h"

#include <limits>

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
                           bucket.getSharding(), chosen.collectives});
  setIfAbsent(module, kPrefetchAttr, plan.prefetch);
  setIfAbsent(module, kReductionsAttr, plan.reductions);
}

/// A given number, or those that are to be compared.
static SmallVector<int64_t> getChoices(std::optional<int64_t> given) {
  if (given)
    return {*given};
  return {1, 2, 3};
}

/// Over all distances. If no plan fits, and `why` is empty, it gets the reason,
/// for the smallest distances.
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
      if (!found && why.empty())
        why = toString(found.takeError());
      else if (!found)
        llvm::consumeError(found.takeError());
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
  auto add = [&](int64_t prefetch, int64_t reductions, Residency residency,
                 Collectives collectives) {
    problem.prefetch = choices.prefetch.value_or(prefetch);
    problem.reductions = choices.reductions.value_or(reductions);
    ResidencySolution solution;
    for (const ResidencyProblem::Bucket &bucket : problem.buckets)
      solution.buckets.push_back(
          {bucket.residency.value_or(residency),
           bucket.carry.value_or(residency),
           llvm::is_contained(bucket.collectives, collectives)
               ? collectives
               : bucket.collectives.front()});
    solution.estimate = estimate(problem, solution.buckets);
    if (llvm::Error error = solution.verify(problem))
      return llvm::consumeError(std::move(error)); // does not fit
    plans.push_back({std::move(solution), best.accumulation, problem.prefetch,
                     problem.reductions});
  };
  bool isFree = llvm::any_of(problem.buckets, [](const auto &bucket) {
    return bucket.collectives.size() > 1;
  });
  for (Residency residency :
       {Residency::drop, Residency::host, Residency::node, Residency::full})
    for (Collectives collectives :
         {Collectives::two_level, Collectives::flat}) {
      if (collectives == Collectives::flat && !isFree)
        continue;
      add(*best.prefetch, *best.reductions, residency, collectives);
      add(kDefaultPrefetch, kDefaultReductions, residency, collectives);
    }
}

/// `module` as `plan` decides it, scheduled; null if no schedule of it fits.
static FailureOr<OwningOpRef<ModuleOp>> schedule(ModuleOp module,
                                                 const StepPlan &plan,
                                                 const CostModel &model,
                                                 int64_t deviceBudget) {
  OwningOpRef<ModuleOp> copy(cast<ModuleOp>(module->clone()));
  applyPlan(*copy, plan);
  PassManager decided(module.getContext());
  buildDecided(decided);
  PassManager scheduled(module.getContext());
  buildScheduled(scheduled);
  if (failed(decided.run(*copy)))
    return failure();
  if (llvm::Error error = decideOverlap(*copy, model, deviceBudget)) {
    llvm::consumeError(std::move(error));
    return OwningOpRef<ModuleOp>();
  }
  if (failed(scheduled.run(*copy)))
    return failure();
  return copy;
}

namespace {
/// What has been simulated.
struct Simulated {
  StepPlan plan;
  /// With the schedule that the plan leads to.
  ResidencyEstimate taken;
};

/// Compares plans by what they lead to.
class Finals {
public:
  Finals(ModuleOp module, const CostModel &model, const StepChoices &choices)
      : module(module), model(model), choices(choices) {}

  LogicalResult simulateAll(ArrayRef<StepPlan> plans);
  /// Adds the few best with each fetch and each sum at a distance of its own.
  LogicalResult refine();
  /// The best whose planned memory fits; nothing if none does. `planned` gets
  /// the least that a plan takes.
  FailureOr<std::optional<StepPlan>> takeBest(int64_t &planned);

private:
  FailureOr<OwningOpRef<ModuleOp>> schedule(const StepPlan &plan) {
    return ::schedule(module, plan, model, choices.budget.device);
  }

  ModuleOp module;
  const CostModel &model;
  const StepChoices &choices;
  std::vector<Simulated> simulated;
};
} // namespace

LogicalResult Finals::simulateAll(ArrayRef<StepPlan> plans) {
  for (const StepPlan &plan : plans) {
    auto scheduled = schedule(plan);
    if (failed(scheduled))
      return failure();
    if (!*scheduled)
      continue;
    StepProgram program = makeStepProgram(
        **scheduled, [&](Operation *op) { return model.costOf(op); });
    ResidencyEstimate taken = plan.residency.estimate;
    taken.seconds = simulateStep(program).seconds;
    simulated.push_back({plan, taken});
  }
  llvm::sort(simulated, [](const Simulated &a, const Simulated &b) {
    return a.taken.seconds < b.taken.seconds;
  });
  return success();
}

LogicalResult Finals::refine() {
  constexpr size_t kRefined = 3;
  if (choices.prefetch && choices.reductions)
    return success();
  std::vector<StepPlan> refined;
  for (const Simulated &one :
       ArrayRef(simulated).take_front(std::min(kRefined, simulated.size()))) {
    refined.push_back(one.plan);
    refined.back().prefetch = choices.prefetch;
    refined.back().reductions = choices.reductions;
  }
  return simulateAll(refined);
}

FailureOr<std::optional<StepPlan>> Finals::takeBest(int64_t &planned) {
  planned = std::numeric_limits<int64_t>::max();
  while (!simulated.empty()) {
    auto best = llvm::min_element(simulated,
                                  [](const Simulated &a, const Simulated &b) {
                                    return isBetter(a.taken, b.taken);
                                  });
    auto scheduled = schedule(best->plan);
    if (failed(scheduled))
      return failure();
    FailureOr<int64_t> bytes = peakDeviceBytes(**scheduled);
    if (failed(bytes))
      return failure();
    if (*bytes <= choices.budget.device)
      return std::optional(best->plan);
    planned = std::min(planned, *bytes);
    simulated.erase(best);
  }
  return std::optional<StepPlan>();
}

/// The best of each search, and what presets would do. Empty if none fits;
/// `why` gets the reason.
static std::vector<StepPlan> findFinalists(ModuleOp module,
                                           const CostModel &model,
                                           const StepChoices &choices,
                                           int64_t deviceBudget,
                                           std::string &why) {
  std::vector<StepPlan> finalists;
  MemoryBudget budget = choices.budget;
  budget.device = deviceBudget;
  for (Accumulation accumulation : choices.accumulations) {
    ResidencyProblem problem = makeResidencyProblem(
        module, model, budget, accumulation, choices.collectives);
    std::optional<StepPlan> best = search(problem, accumulation, choices, why);
    if (!best)
      continue;
    finalists.push_back(*best);
    addUniform(problem, *best, choices, finalists);
  }
  return finalists;
}

FailureOr<StepPlan> fcdp::planStep(ModuleOp module, const CostModel &model,
                                   const StepChoices &choices) {
  // Plans are searched by estimates of memory. If no plan that should fit does,
  // others are searched with as much less.
  constexpr int kSearches = 4;
  int64_t budget = choices.budget.device;
  std::string why;
  for (int i = 0; i < kSearches && budget > 0; ++i) {
    std::vector<StepPlan> finalists =
        findFinalists(module, model, choices, budget, why);
    if (finalists.empty())
      break;
    Finals finals(module, model, choices);
    if (failed(finals.simulateAll(finalists)) || failed(finals.refine()))
      return failure();
    int64_t planned = 0;
    FailureOr<std::optional<StepPlan>> best = finals.takeBest(planned);
    if (failed(best))
      return failure();
    if (*best)
      return **best;
    why = ("no plan fits: the smallest takes " + Twine(planned) +
           " bytes of device memory of " + Twine(choices.budget.device))
              .str();
    budget -= planned - choices.budget.device;
  }
  return module.emitError("strategy 'auto': ") << why;
}

LogicalResult fcdp::planCollectives(ModuleOp module, const CostModel &model,
                                    StepPlan &plan) {
  constexpr int64_t noBound = std::numeric_limits<int64_t>::max();
  ResidencyProblem problem =
      makeResidencyProblem(module, model, {noBound, noBound}, plan.accumulation,
                           /*collectives=*/std::nullopt);
  problem.prefetch = plan.prefetch.value_or(kDefaultPrefetch);
  problem.reductions = plan.reductions.value_or(kDefaultReductions);
  for (auto [bucket, chosen] :
       llvm::zip_equal(problem.buckets, plan.residency.buckets))
    if (!bucket.residency) {
      bucket.residency = chosen.residency;
      bucket.carry = chosen.carry;
    }
  llvm::Expected<ResidencySolution> found = planResidency(problem);
  if (!found)
    return module.emitError("collectives: ") << toString(found.takeError());
  for (auto [chosen, solved] :
       llvm::zip_equal(plan.residency.buckets, found->buckets))
    chosen.collectives = solved.collectives;
  return success();
}
