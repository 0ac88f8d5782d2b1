// SPDX-License-Identifier: Apache-2.0
//
// Reads what ranks have in common of a state that each node may have for
// itself.
#pragma once

#include "job/Job.h"
#include "step/Step.h"

#include <span>
#include <vector>

namespace fcdp {

/// A rank's part of a region of a bucket, for other ranks to read. With outer
/// steps each node has its own parameters; the part is then their mean over
/// nodes, added in f64 in the nodes' order and rounded once. If all nodes have
/// the same value, the mean is that value.
class CommonPart {
public:
  /// Reads `buf`, the state `role` of `bucket`. All ranks must call it.
  CommonPart(const StepPlan &plan, Job &job, Step &step,
             const plan::BucketT &bucket, plan::StateRole role,
             const plan::Buf &buf);

  std::span<const std::byte> bytes() const { return part; }

private:
  std::vector<std::byte> mean;
  std::span<const std::byte> part;
};

} // namespace fcdp
