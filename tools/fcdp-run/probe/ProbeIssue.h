// SPDX-License-Identifier: Apache-2.0
//
// Measures by the host's clock how long it takes to issue work to a GPU.
#pragma once

#include "probe/DeviceTimer.h"
#include "probe/ProbedCluster.h"

namespace fcdp::run {

/// Returns the host's seconds for an operator, and for one that makes a view,
/// that it issues to the device. `finish` waits for the device.
IssueRates measureIssue(c10::Device device, const Work &finish);

/// Returns the host's seconds for each of `count` calls, after one that is not
/// counted.
double secondsToIssue(int count, const Work &call, const Work &finish);

} // namespace fcdp::run
