// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Planning/Residency/ResidencyProblem.h"
#include "fcdp/Planning/Checks.h"
#include "fcdp/Planning/SearchConstants.h"

#include "llvm/ADT/STLExtras.h"

#include <cmath>

using namespace fcdp;

llvm::Error ResidencyProblem::check() const {
  if (microBatches < 1 || localRanks < 1 || prefetch < 0 || reductions < 1)
    return makeError("expected at least one micro-batch, local rank and "
                     "reduction at once, and a prefetch of 0 or more");
  if (deviceBudget < 0 || hostBudget < 0)
    return makeError("expected budgets of 0 bytes or more");
  for (const Bucket &bucket : buckets) {
    if (bucket.wholeBytes < 0 || bucket.sliceBytes < 0 || bucket.sumBytes < 0)
      return makeError("bucket '%s': expected 0 bytes or more",
                       bucket.name.c_str());
    for (const Cost *cost :
         {&bucket.interGather, &bucket.intraGather, &bucket.hostStore,
          &bucket.hostLoad, &bucket.intraReduce, &bucket.interReduce,
          &bucket.sumInterGather, &bucket.sumIntraGather, &bucket.sumStore,
          &bucket.sumLoad, &bucket.update, &bucket.flatGather,
          &bucket.flatReduce})
      if (!isGood(*cost))
        return makeError("bucket '%s': expected finite costs of 0 s or more",
                         bucket.name.c_str());
    if (bucket.referringGather && !isGood(*bucket.referringGather))
      return makeError(
          "bucket '%s': expected a finite cost of 0 s or more of a "
          "gather of differences",
          bucket.name.c_str());
    if (bucket.collectives.empty())
      return makeError("bucket '%s': expected collectives to choose from",
                       bucket.name.c_str());
  }
  for (const Use &use : uses) {
    if (use.until >= uses.size())
      return makeError(
          "a use of bucket '%s' ends with use %u of %zu",
          use.bucket < buckets.size() ? buckets[use.bucket].name.c_str() : "",
          use.until, uses.size());
    if (use.bucket >= buckets.size() ||
        llvm::any_of(use.reduced,
                     [&](unsigned b) { return b >= buckets.size(); }))
      return makeError("a use names bucket %u of %zu", use.bucket,
                       buckets.size());
    if (!isDuration(use.seconds) || use.otherBytes < 0 || use.reducedBytes < 0)
      return makeError("a use of bucket '%s': expected a finite time and bytes "
                       "of 0 or more",
                       buckets[use.bucket].name.c_str());
  }
  return llvm::Error::success();
}

bool ResidencyProblem::Bucket::allows(const BucketResidency &plan) const {
  return (residency || isPossible(sharding, plan.residency)) &&
         (carry || isPossible(sharding, plan.carry));
}

llvm::Error ResidencySolution::verify(const ResidencyProblem &problem) const {
  if (buckets.size() != problem.buckets.size())
    return makeError("a plan of %zu buckets for %zu", buckets.size(),
                     problem.buckets.size());
  for (auto [plan, bucket] : llvm::zip_equal(buckets, problem.buckets)) {
    if (!bucket.allows(plan))
      return makeError("bucket '%s': its sharding has no such residency",
                       bucket.name.c_str());
    if ((bucket.residency && *bucket.residency != plan.residency) ||
        (bucket.carry && *bucket.carry != plan.carry))
      return makeError("bucket '%s': the given residency is not kept",
                       bucket.name.c_str());
  }
  for (auto [plan, bucket] : llvm::zip_equal(buckets, problem.buckets))
    if (!llvm::is_contained(bucket.collectives, plan.collectives))
      return makeError("bucket '%s': its collectives are not among those to "
                       "choose from",
                       bucket.name.c_str());
  ResidencyMemory taken = estimateMemory(problem, buckets);
  if (taken.deviceBytes > problem.deviceBudget)
    return makeError("the plan takes %lld bytes of device memory of %lld",
                     (long long)taken.deviceBytes,
                     (long long)problem.deviceBudget);
  if (taken.hostBytes > problem.hostBudget)
    return makeError("the plan takes %lld bytes of host memory of %lld",
                     (long long)taken.hostBytes, (long long)problem.hostBudget);
  return llvm::Error::success();
}

double fcdp::weigh(double seconds, double network) {
  return seconds * std::pow(network + kSearch.littleNetwork * seconds,
                            kSearch.networkWeight);
}

bool fcdp::isBetter(const ResidencyEstimate &a, const ResidencyEstimate &b) {
  double ofA = weigh(a.seconds, a.network), ofB = weigh(b.seconds, b.network);
  if (std::abs(ofA - ofB) > kSearch.rounding * std::max(ofA, ofB))
    return ofA < ofB;
  return std::make_pair(a.deviceBytes, a.hostBytes) <
         std::make_pair(b.deviceBytes, b.hostBytes);
}
