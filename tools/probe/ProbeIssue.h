// SPDX-License-Identifier: Apache-2.0
//
// Measures the time of issuing work to a GPU by the host's clock.
#pragma once

#include "probe/DeviceTimer.h"
#include "probe/ProbedCluster.h"

namespace fcdp::probe {

/// Returns the host's seconds for issuing an operator, and one that makes a
/// view, to the device. `finish` waits for the device.
IssueRates measureIssue(c10::Device device, const Work &finish);

/// Returns the host's seconds for each of `count` calls, after one call that is
/// not counted.
double secondsToIssue(int count, const Work &call, const Work &finish);

} // namespace fcdp::probe
