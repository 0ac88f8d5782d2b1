// SPDX-License-Identifier: Apache-2.0

#include "StepPlanning.h"

#include "PlanSearch.h"
#include "Trial.h"
#include "fcdp/Planning/Layout/JoinBuckets.h"
#include "fcdp/Planning/Memory/DeviceMemory.h"
#include "fcdp/Planning/SearchConstants.h"
#include "fcdp/Simulation/Scenarios.h"
#include "fcdp/Support/Units.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/Remarks.h"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

using namespace mlir;
using namespace fcdp;

namespace {
/// A plan that has been simulated.
struct Simulated {
  StepDecisions plan;
  /// The duration of the plan's schedule, and the estimated memory.
  ResidencyEstimate taken;
  /// The measure by which plans are compared: the mean time over the spread of
  /// the cluster's inputs, weighted by the use of the network. For a plan that
  /// cannot be the best, the nominal time, weighted.
  double measure = 0;
  /// The schedule; none if it is not kept.
  std::optional<Trial> scheduled = std::nullopt;
};

/// Compares plans by their schedules.
class Finals {
public:
  /// `deviceBudget` is the limit for estimates of memory.
  Finals(ModuleOp module, const CostModel &model, const StepChoices &choices,
         int64_t deviceBudget, const SearchTiming &timing)
      : module(module), model(model), choices(choices),
        deviceBudget(deviceBudget), timing(timing) {}

  /// Simulates plans in the order of their estimates. Leaves out plans that
  /// are worse than the best plan even if they take only as long as a link or
  /// compute needs, and plans whose estimates are hopeless.
  LogicalResult simulateAll(std::vector<StepDecisions> plans);
  /// Adds variants of the best few plans in which each fetch and each
  /// accumulate has its own distance.
  LogicalResult refine();
  /// Returns the plan that uses the least memory among the best plans that fit;
  /// nothing if none fits. `planned` gets the least memory of any plan.
  FailureOr<std::optional<Simulated>> takeBest(int64_t &planned);

private:
  /// Returns the module with the decisions of `plan`, scheduled; none if no
  /// schedule fits.
  FailureOr<std::optional<Trial>> schedule(const StepDecisions &plan);
  /// Returns the nominal and the mean time of a step, in seconds, which
  /// occupies the network for `network` seconds. If the measure of the nominal
  /// time is not below `leastOfMeans`, returns it in place of the mean.
  std::pair<double, double> simulate(ModuleOp scheduled, double network,
                                     double leastOfMeans);
  /// Returns the bytes of a device that the plan needs, and drops its schedule.
  FailureOr<int64_t> planMemory(Simulated &one);
  /// Keeps schedules only for the plans whose memory will be planned.
  void dropSchedules();

  ModuleOp module;
  const CostModel &model;
  const StepChoices &choices;
  const int64_t deviceBudget;
  const SearchTiming &timing;
  std::vector<Simulated> simulated;
};
} // namespace

/// Emits an analysis remark on a plan that was compared.
static void remarkOnCandidate(ModuleOp module, const StepDecisions &plan,
                              const ResidencyEstimate &taken) {
  if (!module.getContext()->getRemarkEngine())
    return;
  std::map<StringRef, int> residencies;
  for (const BucketResidency &bucket : plan.residency.buckets)
    ++residencies[stringifyResidency(bucket.residency)];
  std::string text;
  llvm::raw_string_ostream stream(text);
  auto distance = [](std::optional<int64_t> given) {
    return given ? std::to_string(*given) : "its own";
  };
  stream << "candidate takes " << formatSeconds(taken.seconds)
         << ", was estimated to take "
         << formatSeconds(plan.residency.estimate.seconds) << " and "
         << formatBytes(taken.deviceBytes)
         << " of a device, and occupies the network between nodes for "
         << formatSeconds(taken.network) << ": sharding " << plan.sharding
         << ", accumulation " << plan.accumulation << ", merging up to "
         << formatBytes(plan.bucketBytes) << ", prefetch "
         << distance(plan.prefetch) << ", reductions "
         << distance(plan.reductions);
  for (auto [residency, count] : residencies)
    stream << ", " << count << " buckets " << residency;
  remark::analysis(
      module.getLoc(),
      remark::RemarkOpts::name("candidate").category("fcdp-decide"))
      << text;
}

FailureOr<std::optional<Trial>> Finals::schedule(const StepDecisions &plan) {
  using Scheduled = FailureOr<std::optional<Trial>>;
  return timing.measure<CandidateSchedule>([&]() -> Scheduled {
    std::optional<Trial> trial(module);
    FailureOr<bool> fits = trial->schedule(plan, model, choices);
    if (failed(fits))
      return failure();
    if (!*fits)
      trial.reset();
    return trial;
  });
}

std::pair<double, double> Finals::simulate(ModuleOp scheduled, double network,
                                           double leastOfMeans) {
  return timing.measure<CandidateSimulation>([&] {
    const Cluster &cluster = model.getCluster();
    StepProgram program = makeStepProgram(scheduled, cluster);
    double nominal = simulateStep(program).seconds;
    // A mean is hardly below the nominal time, because the worst deviation of
    // an input costs more than the best one saves.
    double mean = weigh(nominal, network) < leastOfMeans
                      ? findMean(simulateScenarios(program, cluster, nominal,
                                                   getPlanningInputs()))
                      : nominal;
    return std::pair(nominal, mean);
  });
}

LogicalResult Finals::simulateAll(std::vector<StepDecisions> plans) {
  auto getMeasure = [](const StepDecisions &plan) {
    const ResidencyEstimate &estimated = plan.residency.estimate;
    return weigh(estimated.seconds, estimated.network);
  };
  llvm::sort(plans, [&](const StepDecisions &a, const StepDecisions &b) {
    return getMeasure(a) < getMeasure(b);
  });
  double least = std::numeric_limits<double>::infinity();
  double leastOfMeans = least;
  for (const StepDecisions &plan : plans) {
    const ResidencyEstimate &estimated = plan.residency.estimate;
    if (weigh(estimated.needed, estimated.network) > least ||
        getMeasure(plan) > kSearch.hopeless * least)
      continue;
    auto scheduled = schedule(plan);
    if (failed(scheduled))
      return failure();
    if (!*scheduled)
      continue;
    ResidencyEstimate taken = plan.residency.estimate;
    double mean = 0;
    std::tie(taken.seconds, mean) =
        simulate((*scheduled)->get(), taken.network, leastOfMeans);
    remarkOnCandidate(module, plan, taken);
    double measure = weigh(mean, taken.network);
    simulated.push_back({plan, taken, measure, std::move(*scheduled)});
    dropSchedules();
    // A plan that may not fit must not exclude others.
    if (estimated.deviceBytes > deviceBudget)
      continue;
    least = std::min(least, weigh(taken.seconds, taken.network));
    leastOfMeans = std::min(leastOfMeans, measure);
  }
  llvm::sort(simulated, [](const Simulated &a, const Simulated &b) {
    return a.measure < b.measure;
  });
  return success();
}

void Finals::dropSchedules() {
  if (simulated.size() <= kSearch.plannedPlans)
    return;
  SmallVector<double> measures;
  for (const Simulated &one : simulated)
    measures.push_back(one.measure);
  auto *last = measures.begin() + (kSearch.plannedPlans - 1);
  std::nth_element(measures.begin(), last, measures.end());
  for (Simulated &one : simulated)
    if (one.measure > *last)
      one.scheduled.reset();
}

LogicalResult Finals::refine() {
  if (choices.prefetch && choices.reductions)
    return success();
  std::vector<StepDecisions> refined;
  for (const Simulated &one : ArrayRef(simulated).take_front(
           std::min(kSearch.refinedPlans, simulated.size()))) {
    refined.push_back(one.plan);
    refined.back().prefetch = choices.prefetch;
    refined.back().reductions = choices.reductions;
  }
  return simulateAll(refined);
}

/// Returns whether a preset gives the same plan at these distances.
static bool isPreset(const StepDecisions &plan, const StepChoices &choices) {
  return plan.bucketBytes == 0 &&
         plan.prefetch == choices.prefetch.value_or(kDefaultPrefetch) &&
         plan.reductions == choices.reductions.value_or(kDefaultReductions) &&
         llvm::all_equal(plan.residency.buckets);
}

/// Returns the number of plans that count as best. Their measures are at most a
/// thousandth above the best, and nearer to it than to any preset, so that the
/// chosen plan is better than the presets if any plan is. Pre: `simulated` is
/// in order of the measure, and not empty.
static size_t countBest(ArrayRef<Simulated> simulated,
                        const StepChoices &choices) {
  double best = simulated.front().measure;
  double limit = best * (1 + kSearch.sameTime);
  for (const Simulated &one : simulated)
    if (isPreset(one.plan, choices))
      limit = std::min(limit, (best + one.measure) / 2);
  limit = std::max(limit, best * (1 + kSearch.rounding));
  const auto *end = llvm::partition_point(
      simulated, [&](const Simulated &one) { return one.measure <= limit; });
  size_t count = end - simulated.begin();
  return std::min(count, kSearch.plannedPlans);
}

FailureOr<int64_t> Finals::planMemory(Simulated &one) {
  if (!one.scheduled) {
    auto scheduled = schedule(one.plan);
    if (failed(scheduled))
      return failure();
    one.scheduled = std::move(*scheduled);
  }
  FailureOr<int64_t> bytes = timing.measure<CandidateMemory>(
      [&] { return peakDeviceBytes(one.scheduled->get()); });
  one.scheduled.reset();
  return bytes;
}

FailureOr<std::optional<Simulated>> Finals::takeBest(int64_t &planned) {
  planned = std::numeric_limits<int64_t>::max();
  while (!simulated.empty()) {
    size_t count = countBest(simulated, choices);
    Simulated *best = nullptr;
    for (Simulated &one : MutableArrayRef(simulated).take_front(count)) {
      FailureOr<int64_t> bytes = planMemory(one);
      if (failed(bytes))
        return failure();
      if (*bytes < planned) {
        planned = *bytes;
        best = &one;
      }
    }
    if (planned <= choices.budget.device)
      return std::optional(std::move(*best));
    simulated.erase(simulated.begin(), simulated.begin() + count);
  }
  return std::optional<Simulated>();
}

/// Returns the best plan with the merging that `choices` compare, if it is
/// better than `known`. Returns none if no plan is better or none fits. If
/// there is no known plan, `why` gets the reason.
static FailureOr<std::optional<Simulated>>
searchPlans(ModuleOp module, const CostModel &model, const StepChoices &choices,
            const std::optional<ResidencyEstimate> &known,
            const SearchTiming &timing, std::string &why) {
  // Plans are searched by estimates of memory. If no plan that should fit does,
  // the search is repeated with a budget that is smaller by the excess.
  int64_t budget = choices.budget.device;
  for (int i = 0; i < kSearch.searches && budget > 0; ++i) {
    std::vector<StepDecisions> finalists = timing.measure<ResidencySearch>(
        [&] { return findFinalists(module, model, choices, budget, known); });
    if (finalists.empty() && why.empty() && !known)
      why = explainMissing(module, model, choices);
    if (finalists.empty())
      break;
    Finals finals(module, model, choices, budget, timing);
    if (failed(finals.simulateAll(std::move(finalists))) ||
        failed(finals.refine()))
      return failure();
    int64_t planned = 0;
    FailureOr<std::optional<Simulated>> best = finals.takeBest(planned);
    if (failed(best) || *best)
      return best;
    why = ("no plan fits: the smallest takes " + Twine(planned) +
           " bytes of device memory of " + Twine(choices.budget.device))
              .str();
    budget -= planned - choices.budget.device;
  }
  return std::optional<Simulated>();
}

FailureOr<std::optional<StepDecisions>>
fcdp::planStep(ModuleOp module, const CostModel &model,
               const StepChoices &choices, const SearchTiming &timing,
               std::string &why) {
  FailureOr<std::optional<Simulated>> best =
      searchPlans(module, model, choices, /*known=*/std::nullopt, timing, why);
  if (failed(best))
    return failure();
  if (!*best)
    return std::optional<StepDecisions>();
  if (!choices.mayMerge)
    return std::optional((*best)->plan);
  StepChoices merging = choices;
  merging.bucketBytes = findJoinLimits(module, model, choices.budget.device,
                                       (*best)->taken.seconds);
  if (merging.bucketBytes.empty())
    return std::optional((*best)->plan);
  FailureOr<std::optional<Simulated>> merged = searchPlans(
      module, model, merging, (*best)->plan.residency.estimate, timing, why);
  if (failed(merged))
    return failure();
  bool isBetter =
      *merged && (*merged)->measure < (*best)->measure * (1 - kSearch.sameTime);
  return std::optional(isBetter ? (*merged)->plan : (*best)->plan);
}

LogicalResult fcdp::planCollectives(ModuleOp module, const CostModel &model,
                                    const MessageCosts &messages,
                                    StepDecisions &plan) {
  constexpr int64_t noBound = std::numeric_limits<int64_t>::max();
  ResidencyProblem problem =
      makeResidencyProblem(module, model, {noBound, noBound}, plan.accumulation,
                           /*collectives=*/std::nullopt, messages);
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
