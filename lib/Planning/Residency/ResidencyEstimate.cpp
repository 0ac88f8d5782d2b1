// SPDX-License-Identifier: Apache-2.0
//
// Estimates a step under a plan, in the detail of the problem: one piece of
// compute per use.

#include "UseRanges.h"
#include "fcdp/Analysis/SumDelay.h"
#include "fcdp/Planning/Residency/CopyPolicy.h"
#include "fcdp/Planning/Residency/PrefetchDistance.h"
#include "fcdp/Planning/SearchConstants.h"
#include "fcdp/Simulation/Simulator.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

#include <algorithm>
#include <deque>
#include <map>

using namespace fcdp;

namespace {
constexpr uint8_t streamOf(Stream stream) {
  return static_cast<uint8_t>(stream);
}

/// The reductions of one use.
struct Reductions {
  /// The place of its accumulates, in the numbers of findSumPlace.
  size_t place;
  /// The events to wait for.
  llvm::SmallVector<uint32_t, 2> events;
  /// The buckets whose accumulators are stored in host memory afterwards.
  llvm::SmallVector<unsigned, 1> stored;
};

/// The policies of each bucket's copies and gradients under a plan.
struct Policies {
  Policies(const ResidencyProblem &problem,
           llvm::ArrayRef<BucketResidency> plan);

  const ResidencyProblem &problem;
  const UseRanges ranges;
  llvm::ArrayRef<BucketResidency> plan;
  std::vector<CopyPolicy> copies;
  std::vector<SumPolicy> sums;
};

/// One function of the step.
class FunctionBuilder {
public:
  FunctionBuilder(const Policies &policies, Role role, uint32_t &nextEvent)
      : problem(policies.problem), ranges(policies.ranges), plan(policies.plan),
        copies(policies.copies), sums(policies.sums), role(role),
        nextEvent(nextEvent) {}

  InstructionList buildMicrobatch();
  InstructionList buildUpdate();

private:
  bool isFirstOfBucket(unsigned index) const {
    return ranges.first[problem.uses[index].bucket] == index;
  }
  bool gathersFlat(unsigned bucket) const {
    return fcdp::gathersFlat(plan[bucket].collectives, plan[bucket].residency,
                             plan[bucket].carry);
  }
  void fetch(unsigned index);
  /// Issue a copy from the device, after the work of `after`, and one to the
  /// device.
  void store(Stream after, const Cost &cost);
  void load(const Cost &cost);
  void reduce(unsigned bucket);
  /// Gathers the part of a reduced gradient that a rank owns beyond its shard.
  /// Returns the event that marks its end.
  uint32_t gatherSum(const ResidencyProblem::Bucket &costs);
  /// Accumulates the gradients of the earliest use that has any left.
  void accumulateNext();
  size_t countCrossing() const;
  void work(Stream stream, Activity activity, const Cost &cost);
  /// Makes `to` wait for the work that `from` has been given.
  void order(Stream from, Stream to);
  uint32_t record(Stream stream);
  void wait(Stream stream, uint32_t event);

  const ResidencyProblem &problem;
  const UseRanges &ranges;
  llvm::ArrayRef<BucketResidency> plan;
  llvm::ArrayRef<CopyPolicy> copies;
  llvm::ArrayRef<SumPolicy> sums;
  const Role role;
  uint32_t &nextEvent;
  InstructionList list;
  /// The event that each use waits for, if it fetches.
  std::vector<std::optional<uint32_t>> fetched;
  /// The reductions of each use whose results are not accumulated yet.
  std::deque<Reductions> reduced;
};

/// Returns whether the copy of use `later` is fetched before use `use`.
bool isAhead(const ResidencyProblem &problem, size_t use, size_t later) {
  return isFetchedBefore(problem.uses[use].range, problem.uses[later].range,
                         problem.prefetch);
}

} // namespace

Policies::Policies(const ResidencyProblem &problem,
                   llvm::ArrayRef<BucketResidency> plan)
    : problem(problem), ranges(problem), plan(plan) {
  for (const auto &[b, bucket] : llvm::enumerate(problem.buckets)) {
    copies.push_back(
        CopyPolicy({plan[b].residency, plan[b].carry, bucket.trainable,
                    problem.microBatches > 1, ranges.isUsedAgain(b),
                    problem.runsBetweenSteps, bucket.refersToSlice(plan[b])}));
    sums.push_back(problem.getSumPolicy(bucket));
  }
}

void FunctionBuilder::work(Stream stream, Activity activity, const Cost &cost) {
  list.push_back(Instruction::makeWork(streamOf(stream), activity, cost));
}

uint32_t FunctionBuilder::record(Stream stream) {
  list.push_back(Instruction::makeRecord(streamOf(stream), nextEvent));
  return nextEvent++;
}

void FunctionBuilder::wait(Stream stream, uint32_t event) {
  list.push_back(Instruction::makeWait(streamOf(stream), event));
}

void FunctionBuilder::order(Stream from, Stream to) { wait(to, record(from)); }

void FunctionBuilder::store(Stream after, const Cost &cost) {
  order(after, kStoreRoute.stream);
  work(kStoreRoute.stream, Activity::hostStore, cost);
}

void FunctionBuilder::load(const Cost &cost) {
  order(Stream::compute, kLoadRoute.stream);
  work(kLoadRoute.stream, Activity::hostLoad, cost);
}

void FunctionBuilder::fetch(unsigned index) {
  unsigned bucket = problem.uses[index].bucket;
  const ResidencyProblem::Bucket &costs = problem.buckets[bucket];
  const CopyActions &actions = copies[bucket].get(role);
  bool isFirst = isFirstOfBucket(index);
  switch (getTier(isFirst ? actions.first : actions.later).fetchedBy) {
  case CopyFetch::view:
    return;
  case CopyFetch::gatherWithin:
    order(Stream::compute, Stream::intra);
    break;
  case CopyFetch::load:
    load(costs.hostLoad);
    order(kLoadRoute.stream, Stream::intra);
    break;
  case CopyFetch::gatherAll:
    if (gathersFlat(bucket)) {
      order(Stream::compute, Stream::inter);
      work(Stream::inter, Activity::interGather, costs.flatGather);
      fetched[index] = record(Stream::inter);
      return;
    }
    order(Stream::compute, Stream::inter);
    work(Stream::inter, Activity::interGather,
         costs.refersToSlice(plan[bucket]) ? *costs.referringGather
                                           : costs.interGather);
    order(Stream::inter, Stream::intra);
    if (isFirst && actions.fillsState &&
        getTier(copies[bucket].state).filledBy == CopyFill::store) {
      store(Stream::inter, costs.hostStore);
      order(kStoreRoute.stream, kLoadRoute.stream);
    }
  }
  work(Stream::intra, Activity::intraGather, costs.intraGather);
  fetched[index] = record(Stream::intra);
}

void FunctionBuilder::accumulateNext() {
  for (uint32_t event : reduced.front().events)
    wait(Stream::compute, event);
  for (unsigned bucket : reduced.front().stored)
    store(Stream::compute, problem.buckets[bucket].sumStore);
  reduced.pop_front();
}

void FunctionBuilder::reduce(unsigned bucket) {
  const ResidencyProblem::Bucket &costs = problem.buckets[bucket];
  const SumPolicy &policy = sums[bucket];
  const SumActions &actions = policy.get(role);
  if (!actions.reducesWithin)
    return;
  Reductions &now = reduced.back();
  if (reducesFlat(plan[bucket].collectives, costs.accumulation)) {
    order(Stream::compute, Stream::inter_reduce);
    work(Stream::inter_reduce, Activity::interReduce, costs.flatReduce);
    now.events.push_back(gatherSum(costs));
    return;
  }
  bool isLoaded = policy.isInHost() && actions.adds;
  if (isLoaded) {
    load(costs.sumLoad);
    now.events.push_back(record(kLoadRoute.stream));
  }
  if (policy.isInHost() && actions.keeps)
    now.stored.push_back(bucket);
  order(Stream::compute, Stream::intra_reduce);
  work(Stream::intra_reduce, Activity::intraReduce, costs.intraReduce);
  if (actions.reducesBetween) {
    order(Stream::intra_reduce, Stream::inter_reduce);
    if (isLoaded)
      order(kLoadRoute.stream, Stream::inter_reduce);
    work(Stream::inter_reduce, Activity::interReduce, costs.interReduce);
    now.events.push_back(gatherSum(costs));
  } else {
    now.events.push_back(record(Stream::intra_reduce));
  }
}

uint32_t FunctionBuilder::gatherSum(const ResidencyProblem::Bucket &costs) {
  Stream last = Stream::inter_reduce;
  auto gather = [&](Stream stream, Activity activity, const Cost &cost) {
    if (cost.latency == 0 && cost.seconds == 0)
      return; // the rank owns no more
    order(last, stream);
    work(stream, activity, cost);
    last = stream;
  };
  gather(Stream::inter, Activity::interGather, costs.sumInterGather);
  gather(Stream::intra, Activity::intraGather, costs.sumIntraGather);
  return record(last);
}

/// Returns the number of uses whose accumulates may be in flight at the end. It
/// assumes that an update begins after all accumulates, although those of some
/// buckets could follow.
size_t FunctionBuilder::countCrossing() const {
  if (isLastOfStep(role) || !mayCrossBoundary(problem.prefetch))
    return 0;
  auto stored =
      llvm::find_if(llvm::reverse(reduced), [](const Reductions &last) {
        return !last.stored.empty();
      });
  return stored - reduced.rbegin();
}

InstructionList FunctionBuilder::buildMicrobatch() {
  size_t count = problem.uses.size();
  fetched.resize(count);
  size_t issued = 0, unit = 0, units = ranges.reducing.size();
  for (size_t i = 0; i < count; ++i) {
    while (issued < count && (issued <= i || isAhead(problem, i, issued)))
      fetch(issued++);
    if (fetched[i])
      wait(Stream::compute, *fetched[i]);
    work(Stream::compute, Activity::compute,
         {Resource::compute, 0, problem.uses[i].seconds,
          problem.uses[i].deviceMemory});
    if (problem.uses[i].reduced.empty())
      continue;
    while (!reduced.empty() && reduced.front().place <= unit)
      accumulateNext();
    reduced.push_back(
        {findSumPlace(unit++, problem.reductions, units), {}, {}});
    for (unsigned bucket : problem.uses[i].reduced)
      reduce(bucket);
    if (reduced.back().events.empty())
      reduced.pop_back();
  }
  while (reduced.size() > countCrossing())
    accumulateNext();
  return std::move(list);
}

InstructionList FunctionBuilder::buildUpdate() {
  for (const ResidencyProblem::Bucket &bucket : problem.buckets)
    if (bucket.trainable)
      work(Stream::compute, Activity::optimizer, bucket.update);
  return std::move(list);
}

/// Returns the seconds that a step needs of each resource. The micro-batch
/// before the last runs `left` times more.
static std::array<double, kNumResources>
findNeeded(llvm::ArrayRef<Role> roles,
           const std::map<Role, InstructionList> &lists, int64_t left) {
  std::array<double, kNumResources> needed{};
  for (size_t i = 0; i < roles.size(); ++i) {
    bool isRepeated = i + 3 == roles.size();
    for (const Instruction &instruction : lists.at(roles[i]))
      needed[static_cast<unsigned>(instruction.cost.resource)] +=
          instruction.cost.seconds * double(isRepeated ? left + 1 : 1);
  }
  return needed;
}

ResidencyTimes fcdp::estimateTimes(const ResidencyProblem &problem,
                                   llvm::ArrayRef<BucketResidency> buckets) {
  Policies policies(problem, buckets);
  uint32_t nextEvent = 0;
  auto build = [&](Role role) {
    FunctionBuilder builder(policies, role, nextEvent);
    return role == Role::update ? builder.buildUpdate()
                                : builder.buildMicrobatch();
  };
  int64_t simulated =
      std::min(problem.microBatches, kSearch.simulatedMicroBatches);
  llvm::SmallVector<Role> roles = StepFamily(simulated).getStep();
  std::map<Role, InstructionList> lists;
  for (Role role : roles)
    if (!lists.count(role))
      lists[role] = build(role);

  // Only the second of two steps counts.
  size_t functions = roles.size();
  llvm::SmallVector<const InstructionList *> run;
  for (size_t i = 0; i < 2 * functions; ++i)
    run.push_back(&lists[roles[i % functions]]);
  std::vector<FunctionTimes> times = simulate(run).functions;
  double seconds = times.back().end - times[functions - 1].end;
  int64_t left = problem.microBatches - simulated;
  if (left > 0) // in front of the last micro-batch and the update
    seconds += double(left) *
               (times[2 * functions - 3].end - times[2 * functions - 4].end);
  std::array<double, kNumResources> needed = findNeeded(roles, lists, left);
  return {seconds, *std::max_element(needed.begin(), needed.end()),
          needed[static_cast<unsigned>(Resource::inter)]};
}

/// Adds the memory of each use's reductions until their results are
/// accumulated.
static void
holdReductions(const ResidencyProblem &problem, llvm::ArrayRef<size_t> reducing,
               llvm::function_ref<void(size_t, size_t, int64_t)> hold) {
  for (auto [i, use] : llvm::enumerate(reducing)) {
    size_t place = findSumPlace(i, problem.reductions, reducing.size());
    hold(use,
         place < reducing.size() ? reducing[place] : problem.uses.size() - 1,
         problem.uses[use].reducedBytes);
  }
}

/// Returns the bytes that each rank keeps of a copy.
static int64_t keptBytes(const Tier &tier,
                         const ResidencyProblem::Bucket &bucket) {
  return tier.getKeptBytes(bucket.wholeBytes, bucket.sliceBytes);
}

static int64_t keptOnDevice(Residency residency,
                            const ResidencyProblem::Bucket &bucket) {
  const Tier &tier = getTier(residency);
  return tier.arena == Arena::device ? keptBytes(tier, bucket) : 0;
}

/// Returns the greatest sum of bytes over the uses of a micro-batch.
static int64_t estimateDeviceBytes(const Policies &policies) {
  const ResidencyProblem &problem = policies.problem;
  const UseRanges &ranges = policies.ranges;
  size_t count = problem.uses.size();
  int64_t always = 0;
  // The change of the bytes in use at each use.
  std::vector<int64_t> change(count + 1);
  auto hold = [&](size_t first, size_t last, int64_t bytes) {
    change[first] += bytes;
    change[last + 1] -= bytes;
  };
  auto untilOf = [&](size_t use) {
    return std::max<size_t>(use, problem.uses[use].until);
  };
  auto whenFetched = [&](size_t use) {
    size_t when = use;
    while (when > 0 && isAhead(problem, when - 1, use))
      --when;
    return when;
  };
  for (unsigned b = 0; b < problem.buckets.size(); ++b) {
    if (!ranges.isUsed(b))
      continue;
    const ResidencyProblem::Bucket &bucket = problem.buckets[b];
    const CopyPolicy &policy = policies.copies[b];
    // A state is always in use. A copy that is kept within one micro-batch is
    // in use from the first use of the bucket to the last.
    always += keptOnDevice(policy.state, bucket);
    if (policy.within != policy.state)
      hold(whenFetched(ranges.first[b]), untilOf(ranges.last[b]),
           keptOnDevice(policy.within, bucket));
  }
  for (size_t i = 0; i < count; ++i) {
    unsigned b = problem.uses[i].bucket;
    if (getTier(policies.copies[b].within).part != CopyPart::whole)
      hold(whenFetched(i), untilOf(i), problem.buckets[b].wholeBytes);
  }
  holdReductions(problem, ranges.reducing, hold);
  int64_t greatest = 0, inUse = 0;
  for (size_t i = 0; i < count; ++i) {
    inUse += change[i];
    greatest = std::max(greatest, inUse + problem.uses[i].otherBytes);
  }
  return always + greatest;
}

static int64_t estimateHostBytes(const Policies &policies) {
  const ResidencyProblem &problem = policies.problem;
  int64_t bytes = 0;
  for (unsigned b = 0; b < problem.buckets.size(); ++b) {
    const ResidencyProblem::Bucket &bucket = problem.buckets[b];
    const Tier &tier = getTier(policies.copies[b].state);
    if (policies.ranges.isUsed(b) && tier.owner == CopyOwner::node)
      bytes += keptBytes(tier, bucket) * problem.localRanks;
    if (policies.sums[b].isInHost())
      bytes += bucket.sumBytes * problem.localRanks;
  }
  return bytes;
}

ResidencyMemory fcdp::estimateMemory(const ResidencyProblem &problem,
                                     llvm::ArrayRef<BucketResidency> buckets) {
  Policies policies(problem, buckets);
  return {estimateDeviceBytes(policies), estimateHostBytes(policies)};
}

ResidencyEstimate fcdp::estimate(const ResidencyProblem &problem,
                                 llvm::ArrayRef<BucketResidency> buckets) {
  return {estimateMemory(problem, buckets), estimateTimes(problem, buckets)};
}
