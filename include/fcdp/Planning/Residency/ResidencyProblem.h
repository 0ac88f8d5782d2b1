// SPDX-License-Identifier: Apache-2.0
//
// The problem of residency: a step's uses of gathered copies with the cost of
// each way to fetch them; and its solution, where each copy is kept between its
// uses and which collectives are flat. This code does not use the IR.
#pragma once

#include "dialects/Fcdp/Tiers.h"
#include "fcdp/Cluster/Cost.h"
#include "fcdp/Planning/Residency/SumPolicy.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/Error.h"

#include <optional>
#include <string>
#include <vector>

namespace fcdp {

/// The decisions on one bucket's copy.
struct BucketResidency {
  /// The residency between two uses in a micro-batch.
  Residency residency = Residency::drop;
  /// The residency from the last use in a micro-batch to the next micro-batch,
  /// or, if frozen, to the next step.
  Residency carry = Residency::drop;
  /// The form of gathers and reductions that need no node slice; see
  /// fcdp.bucket.
  Collectives collectives = Collectives::two_level;

  bool operator==(const BucketResidency &other) const {
    return residency == other.residency && carry == other.carry &&
           collectives == other.collectives;
  }
};

/// A step as a sequence of uses of buckets, with the cost of each way to fetch
/// a copy.
struct ResidencyProblem {
  struct Bucket {
    /// The name in messages.
    std::string name;
    /// Bytes of the gathered copy on a rank's device, and of a node slice.
    int64_t wholeBytes = 0, sliceBytes = 0;
    bool trainable = true;
    /// The bucket's sharding, which determines the possible residencies.
    Sharding sharding = Sharding::world;
    /// Bytes of a node slice of its gradient accumulator.
    int64_t sumBytes = 0;
    /// The two steps of a gather, the copies of a node slice, the two steps of
    /// a reduction, the two steps of a gather of reduced gradients, the copies
    /// of a node slice of the gradient accumulator, and the optimizer.
    Cost interGather, intraGather, hostStore, hostLoad, intraReduce,
        interReduce, sumInterGather, sumIntraGather, sumStore, sumLoad, update;
    /// A gather and a reduction in one step, for a mesh of two levels.
    Cost flatGather, flatReduce;
    /// The gather between nodes while a slice is in host memory, if it has a
    /// cost of its own because it refers to that slice.
    std::optional<Cost> referringGather;
    /// The accumulation of its gradients; getSumPolicy gives the resulting
    /// actions.
    Accumulation accumulation = Accumulation::sharded;
    /// The user's decisions, if any.
    std::optional<Residency> residency, carry;
    /// The choices. If two_level is one of them, it is the first.
    llvm::SmallVector<Collectives, 2> collectives = {Collectives::two_level};

    /// Returns whether gathers under `plan` refer to the slice of the one
    /// before.
    bool refersToSlice(const BucketResidency &plan) const {
      return referringGather && (getTier(plan.residency).arena == Arena::host ||
                                 getTier(plan.carry).arena == Arena::host);
    }
    /// Returns whether the sharding allows `plan`. Given decisions are allowed.
    bool allows(const BucketResidency &plan) const;
  };

  /// A part of a micro-batch, which begins with the use of a bucket.
  struct Use {
    /// Index of the bucket.
    unsigned bucket = 0;
    /// Index of the last use that reads the copy, which may be this one.
    unsigned until = 0;
    /// Index of its live range, counted over all units from 0: a unit may have
    /// several buckets.
    unsigned range = 0;
    /// Compute until the next use, in seconds.
    double seconds = 0;
    /// Bytes on the device that do not depend on the decisions (states,
    /// activations, gradients); their greatest sum in this part.
    int64_t otherBytes = 0;
    /// The buckets whose gradients are reduced at its end.
    std::vector<unsigned> reduced;
    /// Bytes of packed gradients and scratch that these reductions use.
    int64_t reducedBytes = 0;
    /// The part of `seconds` that takes all of the memory's bandwidth, as in
    /// Cost.
    double deviceMemory = 0;
  };

  std::vector<Bucket> buckets;
  /// The uses of one micro-batch, in order.
  std::vector<Use> uses;
  int64_t microBatches = 1;
  /// The number of live ranges that a copy is fetched ahead.
  int64_t prefetch = 1;
  /// The number of uses whose reductions may run at once.
  int64_t reductions = 2;
  /// Bytes of a rank's device and of a node's host memory for the cache.
  int64_t deviceBudget = 0, hostBudget = 0;
  /// Ranks of a node, each of which keeps a slice.
  int64_t localRanks = 1;
  bool hasSeveralNodes = true;
  /// Whether the job runs the model between steps, too.
  bool runsBetweenSteps = false;

  /// Returns what the functions of a step do with the gradients of `bucket`.
  SumPolicy getSumPolicy(const Bucket &bucket) const {
    return SumPolicy({bucket.accumulation, bucket.trainable, microBatches > 1,
                      hasSeveralNodes});
  }

  /// Fails on indices or numbers out of range.
  llvm::Error check() const;
};

/// The predicted memory of a plan.
struct ResidencyMemory {
  /// Greatest over a step, for one rank.
  int64_t deviceBytes = 0;
  /// Bytes of the copies and gradient accumulators in a node's host memory.
  int64_t hostBytes = 0;
};

/// The predicted times of a plan.
struct ResidencyTimes {
  /// Seconds of one optimizer step.
  double seconds = 0;
  /// Seconds that the busiest link, or compute, needs for a step at its full
  /// rate. No schedule takes less.
  double needed = 0;
  /// Seconds for which a step occupies the network between nodes, at its full
  /// rate. They are proportional to the bytes that are sent.
  double network = 0;
};

/// Returns the measure by which plans are compared, and which is to be small:
/// `seconds`, weighted by the time for which the step occupies the network
/// between nodes (SearchConstants::networkWeight).
double weigh(double seconds, double network);

struct ResidencyEstimate : ResidencyMemory, ResidencyTimes {};

struct ResidencySolution {
  /// One for each bucket.
  std::vector<BucketResidency> buckets;
  ResidencyEstimate estimate;
  /// The number of plans that the search considered, and of those that it
  /// simulated, which takes most of its time.
  unsigned considered = 0, simulated = 0;

  /// Fails if the solution omits a bucket, exceeds a budget, overrides a given
  /// decision, or has a decision that a bucket cannot have.
  llvm::Error verify(const ResidencyProblem &problem) const;
};

/// Returns whether `a` is better than `b`: faster, if times are weighted by the
/// use of the network, or, if these are equal but for rounding, smaller on the
/// device, then in host memory.
bool isBetter(const ResidencyEstimate &a, const ResidencyEstimate &b);

/// Estimates the memory of a plan, much faster than a simulation. Pre:
/// problem.check() succeeds and there is a plan for each bucket.
ResidencyMemory estimateMemory(const ResidencyProblem &problem,
                               llvm::ArrayRef<BucketResidency> buckets);

/// Simulates one step under a plan. Pre: as for estimateMemory.
ResidencyTimes estimateTimes(const ResidencyProblem &problem,
                             llvm::ArrayRef<BucketResidency> buckets);

/// Returns the memory and the times of a plan.
ResidencyEstimate estimate(const ResidencyProblem &problem,
                           llvm::ArrayRef<BucketResidency> buckets);

} // namespace fcdp
