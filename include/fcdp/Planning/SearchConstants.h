// SPDX-License-Identifier: Apache-2.0
//
// The thresholds and bounds of the searches for strategy `auto` and
// --fcdp-decide-overlap, each with its reason. This code does not use the IR.
#pragma once

#include <cstddef>
#include <cstdint>

namespace fcdp {

struct SearchConstants {
  //===--------------------------------------------------------------------===//
  // When two plans are equally good
  //===--------------------------------------------------------------------===//

  /// Exponent of the network's time in the measure of a plan, which is the
  /// product of that power and the step's time. A plan that sends half as much
  /// may take 0.7 % longer, and one that sends a tenth, 2.3 %. The network is
  /// shared with others, and predictions differ from measurements by more than
  /// that.
  double networkWeight = 0.01;
  /// Share of a step's time that is added to the network's, so that it hardly
  /// matters how much less than that a step sends.
  double littleNetwork = 0.01;
  /// Share of a step's time below which a difference does not count: the cost
  /// model is not more exact. Among such plans the smallest is taken, and the
  /// search does not look for savings below it.
  double sameTime = 1e-3;
  /// Relative difference of two times that are equal except for the rounding of
  /// sums of doubles.
  double rounding = 1e-9;

  //===--------------------------------------------------------------------===//
  // Residency problems
  //===--------------------------------------------------------------------===//

  /// The greatest number of plans that are all estimated: 4 residencies of 6
  /// buckets, or of 4 buckets where each may be flat. That takes well below a
  /// second.
  double exhaustivePlans = 4096;
  /// The number of plans, besides the uniform ones, that the search estimates
  /// if there are more. It then takes about as long as an exhaustive one.
  unsigned searchedPlans = 4000;
  /// The number of micro-batches of a step that an estimate simulates. By then
  /// each takes as long as the one before it, and so do the later ones.
  int64_t simulatedMicroBatches = 5;
  /// The number of distances of fetches, and of numbers of reductions in
  /// flight, that are compared, in units from 1 on. Greater ones need more
  /// memory and were never faster.
  int64_t comparedDistances = 3;

  //===--------------------------------------------------------------------===//
  // Plans that are scheduled and simulated in full
  //===--------------------------------------------------------------------===//

  /// A plan is not simulated if its estimate is this many times the fastest
  /// simulated time: estimates have been within 10 % of simulations.
  double hopeless = 1.1;
  /// Uniform plans are simulated if they fit a budget that is larger by one
  /// part in so many. Estimates of memory may be too high by about as much,
  /// since results of operators share it with buffers.
  int64_t memorySlack = 4;
  /// The number of best plans whose distances are decided one by one. Each of
  /// these needs another schedule.
  size_t refinedPlans = 3;
  /// The number of fastest plans whose memory is planned, to take the smallest.
  /// Planning takes longer than simulating.
  size_t plannedPlans = 6;
  /// The number of searches, each with a smaller memory estimate, until a plan
  /// fits. The first has nearly always been enough.
  int searches = 4;

  //===--------------------------------------------------------------------===//
  // Merging of buckets
  //===--------------------------------------------------------------------===//

  /// Collectives of a bucket in a micro-batch, and small operators around each:
  /// a gather for the forward pass, one for the backward pass, a reduction.
  /// Merging a bucket into another saves their latencies.
  int collectivesPerBucket = 3, operatorsPerCollective = 3;

  //===--------------------------------------------------------------------===//
  // Overlap problems
  //===--------------------------------------------------------------------===//

  /// Greatest distance of one fetch, and greatest number of units over which
  /// one reduction is in flight. Just-in-time planning starts from these values
  /// and shortens them unless links are the bottleneck.
  size_t mostDistance = 8;

  /// The number of slacks between a transfer's end and its use that are tried:
  /// none, then a share of the function's time that doubles each time, up to a
  /// 64th.
  int slackTrials = 6;
  double firstSlack = 1.0 / 1024;
};

inline constexpr SearchConstants kSearch;

} // namespace fcdp
