// SPDX-License-Identifier: Apache-2.0
//
// The thresholds and bounds of the searches behind strategy `auto` and
// --fcdp-decide-overlap, each with its reason. Knows no IR.
#pragma once

#include <cstddef>
#include <cstdint>

namespace fcdp {

struct SearchConstants {
  //===--------------------------------------------------------------------===//
  // When two plans are equally good
  //===--------------------------------------------------------------------===//

  /// Share of a step's time below which a difference does not count: the cost
  /// model is not more exact. Among such plans the smallest is taken, and what
  /// can save no more is not searched for.
  double sameTime = 1e-3;
  /// Relative difference of two times that are equal but for the rounding of
  /// sums of doubles.
  double rounding = 1e-9;

  //===--------------------------------------------------------------------===//
  // Residency problems
  //===--------------------------------------------------------------------===//

  /// Up to this many plans are all estimated: 4 residencies of 6 buckets, or of
  /// 4 buckets where each may be flat. That takes well below a second.
  double exhaustivePlans = 4096;
  /// Plans that a search of more estimates besides the uniform ones. It takes
  /// about as long as an exhaustive one then.
  unsigned searchedPlans = 4000;
  /// Micro-batches of a step that an estimate simulates. By then each lasts as
  /// long as the one before it, and so do those that are left out.
  int64_t simulatedMicroBatches = 5;
  /// Numbers of units from 1 on that are compared as distances of fetches and
  /// as reductions in flight. More cost memory and were never faster.
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
  /// The best plans whose distances are decided one by one. That takes another
  /// schedule of each.
  size_t refinedPlans = 3;
  /// The fastest plans whose memory is planned, to take the smallest. Planning
  /// takes longer than simulating.
  size_t plannedPlans = 6;
  /// Searches with a smaller and smaller estimate of the memory that there is,
  /// until a plan fits. The first has nearly always been enough.
  int searches = 4;

  //===--------------------------------------------------------------------===//
  // Merging of buckets
  //===--------------------------------------------------------------------===//

  /// Collectives of a bucket in a micro-batch, and small operators around each:
  /// a gather for the forward pass, one for the backward pass, a reduction. A
  /// bucket fewer saves their latencies.
  int collectivesPerBucket = 3, operatorsPerCollective = 3;

  //===--------------------------------------------------------------------===//
  // Overlap problems
  //===--------------------------------------------------------------------===//

  /// Greatest distance of one fetch, and greatest number of units over which
  /// one reduction is in flight. Just in time planning begins there; what it
  /// gives is shorter wherever links are not the bottleneck.
  size_t mostDistance = 8;

  /// Slacks between a transfer's end and its use that are tried: none, then a
  /// part of the function's time that doubles each time, up to a 64th.
  int slackTrials = 6;
  double firstSlack = 1.0 / 1024;
};

inline constexpr SearchConstants kSearch;

} // namespace fcdp
