// SPDX-License-Identifier: Apache-2.0

#include "PlanSearch.h"

#include "Trial.h"
#include "dialects/Fcdp/Tiers.h"
#include "fcdp/Planning/Layout/JoinBuckets.h"
#include "fcdp/Planning/Layout/ShardStates.h"
#include "fcdp/Planning/SearchConstants.h"

#include "llvm/ADT/Sequence.h"

#include <limits>

using namespace mlir;
using namespace fcdp;

namespace {
/// A residency problem, and the decisions that it takes as given.
struct Candidate {
  int64_t bucketBytes = 0;
  Sharding sharding = Sharding::world;
  Accumulation accumulation = Accumulation::sharded;
  ResidencyProblem problem;
  /// A lower bound on the measure of any plan's estimate, for each of the
  /// distances.
  std::vector<double> least;
};

class Finalists {
public:
  Finalists(const StepChoices &choices,
            const std::optional<ResidencyEstimate> &known)
      : choices(choices), best(known) {}
  void add(Candidate candidate);
  std::vector<StepDecisions> take() { return std::move(plans); }

private:
  std::optional<StepDecisions> search(Candidate &candidate);
  void addUniform(Candidate &candidate, int64_t prefetch, int64_t reductions);
  void addUniform(const Candidate &candidate,
                  std::vector<BucketResidency> buckets);

  const StepChoices &choices;
  std::vector<StepDecisions> plans;
  /// The estimate of the best known plan.
  std::optional<ResidencyEstimate> best;
};
} // namespace

/// Returns the given number, or the numbers that are compared.
static SmallVector<int64_t> getChoices(std::optional<int64_t> given) {
  if (given)
    return {*given};
  return llvm::to_vector(
      llvm::seq_inclusive<int64_t>(1, kSearch.comparedDistances));
}

static void forEachDistance(ResidencyProblem &problem,
                            const StepChoices &choices,
                            llvm::function_ref<void()> visit) {
  for (int64_t prefetch : getChoices(choices.prefetch))
    for (int64_t reductions : getChoices(choices.reductions)) {
      problem.prefetch = prefetch;
      problem.reductions = reductions;
      visit();
    }
}

/// Returns whether one gather and one reduction take less time if flat.
static bool isFlatFaster(const ResidencyProblem::Bucket &bucket) {
  return bucket.flatGather.getTotal() + bucket.flatReduce.getTotal() <
         bucket.interGather.getTotal() + bucket.intraGather.getTotal() +
             bucket.intraReduce.getTotal() + bucket.interReduce.getTotal();
}

/// Returns a plan with `residency` for each bucket that the user has not
/// decided. Without `collectives`, each bucket gets the faster ones.
static std::vector<BucketResidency>
treatAlike(const ResidencyProblem &problem, Residency residency,
           std::optional<Collectives> collectives) {
  std::vector<BucketResidency> buckets;
  for (const ResidencyProblem::Bucket &bucket : problem.buckets) {
    Collectives wanted = collectives.value_or(
        isFlatFaster(bucket) ? Collectives::flat : Collectives::two_level);
    buckets.push_back({bucket.residency.value_or(residency),
                       bucket.carry.value_or(residency),
                       llvm::is_contained(bucket.collectives, wanted)
                           ? wanted
                           : bucket.collectives.front()});
  }
  return buckets;
}

/// Returns the least measure of plans that never fetch a copy again, whether
/// they fit or not, for each of the distances. Each gather takes as long as the
/// bucket's fastest one.
static std::vector<double> estimateLeast(ResidencyProblem problem,
                                         const StepChoices &choices) {
  for (ResidencyProblem::Bucket &bucket : problem.buckets)
    if (bucket.referringGather &&
        bucket.referringGather->getTotal() < bucket.interGather.getTotal())
      bucket.interGather = *bucket.referringGather;
  SmallVector<std::vector<BucketResidency>, 3> plans;
  for (std::optional<Collectives> collectives :
       {std::optional(Collectives::two_level), std::optional(Collectives::flat),
        std::optional<Collectives>()}) {
    auto plan = treatAlike(problem, Residency::full, collectives);
    if (!llvm::is_contained(plans, plan))
      plans.push_back(std::move(plan));
  }
  std::vector<double> least;
  forEachDistance(problem, choices, [&] {
    double seconds = std::numeric_limits<double>::infinity();
    double network = seconds;
    for (const std::vector<BucketResidency> &plan : plans) {
      ResidencyTimes times = estimateTimes(problem, plan);
      seconds = std::min(seconds, times.seconds);
      network = std::min(network, times.network);
    }
    least.push_back(weigh(seconds, network));
  });
  return least;
}

/// Returns the best plan if it is better than those of other searches.
std::optional<StepDecisions> Finalists::search(Candidate &candidate) {
  std::optional<StepDecisions> found;
  auto least = candidate.least.begin();
  forEachDistance(candidate.problem, choices, [&] {
    const ResidencyProblem &problem = candidate.problem;
    double measure = *least++;
    if (best && measure >= weigh(best->seconds, best->network))
      return;
    llvm::Expected<ResidencySolution> solution = planResidency(problem);
    if (!solution)
      return llvm::consumeError(solution.takeError());
    if (best && !isBetter(solution->estimate, *best))
      return;
    best = solution->estimate;
    found = StepDecisions{candidate.bucketBytes, candidate.sharding,
                          std::move(*solution),  candidate.accumulation,
                          problem.prefetch,      problem.reductions};
  });
  return found;
}

/// Returns whether the decisions of `a` and `b` are the same.
static bool isSame(const StepDecisions &a, const StepDecisions &b) {
  return a.bucketBytes == b.bucketBytes && a.sharding == b.sharding &&
         a.accumulation == b.accumulation && a.prefetch == b.prefetch &&
         a.reductions == b.reductions &&
         a.residency.buckets == b.residency.buckets;
}

/// Returns more bytes than the budget. Estimates of memory may be too high,
/// because results of operators share memory with buffers, and only the plan
/// knows how.
static int64_t allowMore(int64_t bytes) {
  int64_t more = bytes / kSearch.memorySlack;
  return bytes > std::numeric_limits<int64_t>::max() - more ? bytes
                                                            : bytes + more;
}

/// Adds a plan if it may fit and the sharding allows it.
void Finalists::addUniform(const Candidate &candidate,
                           std::vector<BucketResidency> buckets) {
  ResidencyProblem problem = candidate.problem;
  problem.deviceBudget = allowMore(problem.deviceBudget);
  StepDecisions plan{candidate.bucketBytes,    candidate.sharding,
                     {std::move(buckets), {}}, candidate.accumulation,
                     problem.prefetch,         problem.reductions};
  if (llvm::any_of(plans, [&](auto &other) { return isSame(plan, other); }))
    return;
  plan.residency.estimate = estimate(problem, plan.residency.buckets);
  if (llvm::Error error = plan.residency.verify(problem))
    llvm::consumeError(std::move(error));
  else
    plans.push_back(std::move(plan));
}

/// Adds the plans of presets.
void Finalists::addUniform(Candidate &candidate, int64_t prefetch,
                           int64_t reductions) {
  candidate.problem.prefetch = choices.prefetch.value_or(prefetch);
  candidate.problem.reductions = choices.reductions.value_or(reductions);
  for (Residency residency : kSearchedResidencies)
    for (Collectives collectives : {Collectives::two_level, Collectives::flat})
      addUniform(candidate,
                 treatAlike(candidate.problem, residency, collectives));
}

void Finalists::add(Candidate candidate) {
  std::optional<StepDecisions> found = search(candidate);
  if (found)
    plans.push_back(*found);
  if (candidate.bucketBytes != 0)
    return; // no preset merges
  if (found) {
    addUniform(candidate, *found->prefetch, *found->reductions);
  }
  addUniform(candidate, kDefaultPrefetch, kDefaultReductions);
}

static void addCandidates(ModuleOp cut, const Candidate &shared,
                          const CostModel &model, const StepChoices &choices,
                          const MemoryBudget &budget,
                          std::vector<Candidate> &candidates) {
  std::vector<ResidencyProblem> problems =
      makeResidencyProblems(cut, model, budget, choices.accumulations,
                            choices.collectives, *choices.messages);
  for (auto [accumulation, problem] :
       llvm::zip_equal(choices.accumulations, problems)) {
    Candidate candidate = shared;
    candidate.accumulation = accumulation;
    candidate.problem = std::move(problem);
    if (llvm::Error error = candidate.problem.check())
      llvm::consumeError(std::move(error)); // explainMissing says it
    else
      candidates.push_back(std::move(candidate));
  }
}

/// Returns the candidates in the order of their least measures.
static std::vector<Candidate> findCandidates(ModuleOp module,
                                             const CostModel &model,
                                             const StepChoices &choices,
                                             const MemoryBudget &budget) {
  std::vector<Candidate> candidates;
  for (int64_t bucketBytes : choices.bucketBytes) {
    Trial joined(module);
    if (llvm::Error error = joinBuckets(joined.get(), bucketBytes)) {
      llvm::consumeError(std::move(error)); // not one to choose
      continue;
    }
    for (Sharding sharding : choices.shardings) {
      Trial cut(joined.get());
      shardStates(cut.get(), sharding);
      Candidate shared;
      shared.bucketBytes = bucketBytes;
      shared.sharding = sharding;
      addCandidates(cut.get(), shared, model, choices, budget, candidates);
    }
  }
  for (Candidate &candidate : candidates)
    candidate.least = estimateLeast(candidate.problem, choices);
  llvm::sort(candidates, [](const Candidate &a, const Candidate &b) {
    return *llvm::min_element(a.least) < *llvm::min_element(b.least);
  });
  return candidates;
}

std::vector<StepDecisions>
fcdp::findFinalists(ModuleOp module, const CostModel &model,
                    const StepChoices &choices, int64_t deviceBudget,
                    const std::optional<ResidencyEstimate> &known) {
  Finalists finalists(choices, known);
  MemoryBudget budget{deviceBudget, choices.budget.host};
  for (Candidate &candidate : findCandidates(module, model, choices, budget))
    finalists.add(std::move(candidate));
  return finalists.take();
}

std::string fcdp::explainMissing(ModuleOp module, const CostModel &model,
                                 const StepChoices &choices) {
  ResidencyProblem problem = makeResidencyProblem(
      module, model, choices.budget, choices.accumulations.front(),
      choices.collectives, *choices.messages);
  problem.prefetch = getChoices(choices.prefetch).front();
  problem.reductions = getChoices(choices.reductions).front();
  llvm::Expected<ResidencySolution> solution = planResidency(problem);
  return solution ? "no plan fits" : toString(solution.takeError());
}
