// SPDX-License-Identifier: Apache-2.0
//
// Estimates collectives from a cluster's links and its tables of measured
// collectives, but not from its profile.
#pragma once

#include "dialects/Fcdp/Enums.h"
#include "fcdp/Cluster/Cluster.h"
#include "fcdp/Cluster/Cost.h"

namespace fcdp {

/// Estimate a collective along `axis`, or over both axes in one step. Each of
/// the ranks contributes a part of `partBytes` to a gather, and has one of
/// `partBytes` after a reduction.
Cost estimateOverAxis(const Cluster &cluster, Axis axis, CollectiveKind kind,
                      int64_t ranks, double partBytes);
Cost estimateFlat(const Cluster &cluster, CollectiveKind kind,
                  double partBytes);

/// Adds the time of the sum that follows when all parts have arrived. Its
/// memory traffic is counted during the transfer.
Cost withSum(Cost gather, const Device &device, int64_t ranks,
             double partBytes);

} // namespace fcdp
