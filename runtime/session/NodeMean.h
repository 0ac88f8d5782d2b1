// SPDX-License-Identifier: Apache-2.0
//
// Values that each node has for itself, as one.
#pragma once

#include "collectives/Job.h"
#include "step/Step.h"

#include <span>
#include <vector>

namespace fcdp {

/// A rank's part of a region of a bucket, to be read by other ranks. With outer
/// steps each node has parameters of its own; what is read then is their mean
/// over nodes, added in f64 in their order and rounded once. It is the nodes'
/// value where all have the same.
class CommonPart {
public:
  /// Called by all ranks, for `buf` of the state `role` of `bucket`.
  CommonPart(const StepPlan &plan, Job &job, Step &step,
             const plan::BucketT &bucket, plan::StateRole role,
             const plan::Buf &buf);

  std::span<const std::byte> bytes() const { return part; }

private:
  std::vector<std::byte> mean;
  std::span<const std::byte> part;
};

} // namespace fcdp
