// SPDX-License-Identifier: Apache-2.0
//
// Counts updates that are too small for the type of a parameter.
#pragma once

#include "plan/StepPlan.h"
#include "policy/SumOverRanks.h"

#include <cstddef>
#include <functional>
#include <span>
#include <string>

namespace fcdp {

/// Numbers of trained elements.
struct UpdateCount {
  double elements = 0;
  /// Elements in half precision, without a master, for which an update of the
  /// size of the learning rate is rounded away.
  double lost = 0;
};

/// Returns whether the plan has any elements in half precision without a
/// master.
bool mayLoseUpdates(const StepPlan &plan);

/// Returns this rank's shard of a bucket.
using ReadShard = std::function<std::span<const std::byte>(size_t bucket)>;

/// Counts the elements that a rank at `place` owns. `rate` is the learning rate
/// before the factors of groups. Only optimizers whose updates have the size of
/// the rate (AdamW, also with 8 bits, and Lion) lose updates here.
UpdateCount countLostUpdates(const StepPlan &plan, Place place, double rate,
                             const ReadShard &readShard);

/// Returns the sum of the counts of all ranks.
UpdateCount sumOverRanks(const UpdateCount &own, const GatherOverRanks &gather);

/// Returns one line for people, or "" if nothing is lost.
std::string describeLostUpdates(const UpdateCount &count, double rate);

} // namespace fcdp
