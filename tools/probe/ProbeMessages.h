// SPDX-License-Identifier: Apache-2.0
//
// Measures how fast this rank prepares the messages of collectives.
#pragma once

#include "probe/ProbeCompute.h"
#include "probe/ProbedCluster.h"

namespace fcdp::probe {

/// Returns the rate in bytes of values per second at which messages are coded,
/// and at which they are decoded.
ProbedRate rateOfMessages(const SteadyTimer &time);

} // namespace fcdp::probe
