// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Planning/Residency/ResidencyPlanning.h"
#include "UseRanges.h"
#include "dialects/Fcdp/Tiers.h"
#include "fcdp/Planning/Checks.h"
#include "fcdp/Planning/SearchConstants.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringSet.h"

using namespace fcdp;

namespace {
using Plan = std::vector<BucketResidency>;

class Search {
public:
  explicit Search(const ResidencyProblem &problem);
  llvm::Expected<ResidencySolution> run();

private:
  llvm::SmallVector<BucketResidency> findOptions(unsigned bucket) const;
  std::vector<unsigned> orderByReuse() const;
  bool fits(const ResidencyMemory &memory) const {
    return memory.deviceBytes <= problem.deviceBudget &&
           memory.hostBytes <= problem.hostBudget;
  }
  double countPlans() const;
  void tryAll(Plan &plan, size_t bucket);
  void tryUniform();
  void tryUniform(const BucketResidency &option);
  bool tryThresholds();
  bool trySingleChanges();
  /// Estimates `plan`, unless that was done before. Returns whether it fits and
  /// is the best so far.
  bool consider(const Plan &plan);
  /// Sets `option` for `bucket`, unless the user has decided.
  void set(Plan &plan, unsigned bucket, const BucketResidency &option) const;

  const ResidencyProblem &problem;
  std::vector<llvm::SmallVector<BucketResidency>> options;
  std::optional<ResidencySolution> best;
  /// The smallest of the plans that do not fit.
  std::optional<ResidencyMemory> smallest;
  /// The plans that were considered, as bytes.
  llvm::StringSet<> known;
  unsigned considered = 0, simulated = 0;
};
} // namespace

/// Returns whether a gather or a reduction of the bucket may be flat.
static bool mayBeFlat(const ResidencyProblem::Bucket &bucket,
                      Residency residency, Residency carry) {
  return (bucket.trainable &&
          reducesFlat(Collectives::flat, bucket.accumulation)) ||
         gathersFlat(Collectives::flat, residency, carry);
}

/// Returns options with different effects. A copy that stays on the device
/// between micro-batches stays within them.
llvm::SmallVector<BucketResidency> Search::findOptions(unsigned index) const {
  const ResidencyProblem::Bucket &bucket = problem.buckets[index];
  bool isCarried = !bucket.trainable || problem.microBatches > 1;
  llvm::SmallVector<BucketResidency> found;
  for (Residency residency : kSearchedResidencies)
    for (Residency carry : kSearchedResidencies) {
      if (bucket.residency && residency != *bucket.residency)
        continue;
      if (bucket.carry ? carry != *bucket.carry
                       : !isCarried && carry != residency)
        continue;
      if (!bucket.allows({residency, carry}))
        continue;
      bool isRedundant = isCarried && !bucket.residency && carry < residency;
      if (isRedundant)
        continue;
      for (Collectives collectives : bucket.collectives)
        if (collectives == bucket.collectives.front() ||
            mayBeFlat(bucket, residency, carry))
          found.push_back({residency, carry, collectives});
    }
  return found;
}

Search::Search(const ResidencyProblem &problem) : problem(problem) {
  for (unsigned b = 0; b < problem.buckets.size(); ++b)
    options.push_back(findOptions(b));
}

double Search::countPlans() const {
  double count = 1;
  for (const auto &ofBucket : options)
    count *= double(ofBucket.size());
  return count;
}

/// Returns different bytes for different plans.
static std::string encode(const Plan &plan) {
  std::string bytes;
  for (const BucketResidency &bucket : plan)
    bytes.append({static_cast<char>(bucket.residency),
                  static_cast<char>(bucket.carry),
                  static_cast<char>(bucket.collectives)});
  return bytes;
}

bool Search::consider(const Plan &plan) {
  ++considered;
  if (!known.insert(encode(plan)).second)
    return false; // the best is no worse
  ResidencyMemory kept = estimateMemory(problem, plan);
  if (!fits(kept)) {
    auto bytes = [](const ResidencyMemory &memory) {
      return std::make_pair(memory.deviceBytes, memory.hostBytes);
    };
    if (!smallest || bytes(kept) < bytes(*smallest))
      smallest = kept;
    return false;
  }
  ++simulated;
  ResidencyEstimate taken{kept, estimateTimes(problem, plan)};
  if (best && !isBetter(taken, best->estimate))
    return false;
  best = ResidencySolution{plan, taken};
  return true;
}

void Search::tryAll(Plan &plan, size_t bucket) {
  if (bucket == plan.size()) {
    consider(plan);
    return;
  }
  for (const BucketResidency &option : options[bucket]) {
    plan[bucket] = option;
    tryAll(plan, bucket + 1);
  }
}

void Search::set(Plan &plan, unsigned bucket,
                 const BucketResidency &option) const {
  BucketResidency kept = option;
  if (!llvm::is_contained(options[bucket], option))
    kept.collectives = problem.buckets[bucket].collectives.front();
  if (llvm::is_contained(options[bucket], kept))
    plan[bucket] = kept;
}

/// Considers the plans of the presets, and other plans that treat all buckets
/// alike.
void Search::tryUniform() {
  bool isFree = llvm::any_of(problem.buckets, [](const auto &bucket) {
    return bucket.collectives.size() > 1;
  });
  for (Residency residency : kSearchedResidencies)
    for (Residency carry : kSearchedResidencies) {
      tryUniform({residency, carry});
      if (isFree)
        tryUniform({residency, carry, Collectives::flat});
    }
}

void Search::tryUniform(const BucketResidency &option) {
  Plan plan;
  for (const auto &ofBucket : options)
    plan.push_back(ofBucket.front());
  for (unsigned b = 0; b < plan.size(); ++b) {
    BucketResidency chosen = option;
    if (problem.buckets[b].trainable && problem.microBatches == 1)
      chosen.carry = chosen.residency;
    set(plan, b, chosen);
  }
  consider(plan);
}

/// Returns the buckets in the order in which their copies are used again
/// soonest: the backward pass is last in, first out.
std::vector<unsigned> Search::orderByReuse() const {
  UseRanges ranges(problem);
  std::vector<unsigned> order;
  for (unsigned b = 0; b < problem.buckets.size(); ++b)
    if (ranges.isUsed(b))
      order.push_back(b);
  auto getKey = [&](unsigned b) {
    return std::make_pair(ranges.last[b] - ranges.first[b], b);
  };
  llvm::sort(order,
             [&](unsigned a, unsigned b) { return getKey(a) < getKey(b); });
  return order;
}

/// Gives one residency to the buckets that are used again soonest, or latest:
/// to as many as fit and reduce the time.
bool Search::tryThresholds() {
  std::vector<unsigned> order = orderByReuse();
  llvm::SmallVector<BucketResidency> all;
  for (const auto &ofBucket : options)
    for (const BucketResidency &option : ofBucket)
      if (!llvm::is_contained(all, option))
        all.push_back(option);
  bool improved = false;
  for (bool soonest : {true, false}) {
    for (const BucketResidency &option : all) {
      const Plan base = best->buckets;
      // The step halves around the best number so far.
      size_t center = 0;
      for (size_t step = order.size();
           step >= 1 && considered < kSearch.searchedPlans; step /= 2) {
        size_t from = center < step ? 0 : center - step;
        for (size_t count : {from, center + step}) {
          if (count > order.size() || count == center)
            continue;
          Plan plan = base;
          for (size_t i = 0; i < count; ++i)
            set(plan, order[soonest ? i : order.size() - 1 - i], option);
          if (consider(plan)) {
            improved = true;
            center = count;
          }
        }
      }
    }
  }
  return improved;
}

bool Search::trySingleChanges() {
  bool improved = false;
  for (unsigned b = 0; b < options.size() && considered < kSearch.searchedPlans;
       ++b)
    for (const BucketResidency &option : options[b]) {
      Plan plan = best->buckets;
      if (plan[b] == option)
        continue;
      plan[b] = option;
      improved |= consider(plan);
    }
  return improved;
}

llvm::Expected<ResidencySolution> Search::run() {
  if (countPlans() <= kSearch.exhaustivePlans) {
    Plan plan(problem.buckets.size());
    tryAll(plan, 0);
  } else {
    tryUniform();
    bool improved = best.has_value();
    while (improved && considered < kSearch.searchedPlans) {
      improved = tryThresholds();
      improved |= trySingleChanges();
    }
  }
  if (best) {
    best->considered = considered;
    best->simulated = simulated;
    return std::move(*best);
  }
  return makeError(
      "no plan fits: the smallest takes %lld bytes of device "
      "memory of %lld and %lld bytes of host memory of %lld",
      (long long)smallest->deviceBytes, (long long)problem.deviceBudget,
      (long long)smallest->hostBytes, (long long)problem.hostBudget);
}

llvm::Expected<ResidencySolution>
fcdp::planResidency(const ResidencyProblem &problem) {
  if (llvm::Error error = problem.check())
    return std::move(error);
  return Search(problem).run();
}
