// SPDX-License-Identifier: Apache-2.0
//
// Measures operators on a GPU: by the device's clock how long they take there,
// and by the host's how long it takes to issue them.
#pragma once

#include "core/Backend.h"
#include "probe/ProbedCluster.h"

#include <c10/core/Device.h>
#include <functional>

namespace fcdp::run {

using Work = std::function<void()>;
/// Returns the seconds in which a device does the second piece of work behind
/// the first. All ranks measure at the same time and get the same number.
using DeviceTimer = std::function<double(const Work &before, const Work &)>;

/// Returns rates of products and memory and the gap between two kernels. Copies
/// access at most `mostBytes`. Before each measure the same work runs once
/// without being counted. Works on libtorch's current stream.
OperatorRates measureOperators(c10::Device device, const DeviceTimer &time,
                               size_t mostBytes);

/// Returns the host's seconds for an operator, and for one that makes a view,
/// that it issues to the device. `finish` waits for the device.
IssueRates measureIssue(c10::Device device, const Work &finish);

/// Returns the host's seconds for each of `count` calls, after one that is not
/// counted.
double secondsToIssue(int count, const Work &call, const Work &finish);

} // namespace fcdp::run
