// SPDX-License-Identifier: Apache-2.0
//
// Times work on a GPU by the device's clock.
#pragma once

#include <c10/core/Device.h>
#include <functional>

namespace fcdp::probe {

using Work = std::function<void()>;
/// Returns the seconds that a device takes for the second piece of work, which
/// it runs after the first. All ranks measure at the same time and get the same
/// number.
using DeviceTimer = std::function<double(const Work &before, const Work &)>;

/// Returns the seconds of one of `count` runs of `work`, after one run that is
/// not counted.
double timeEach(const DeviceTimer &time, const Work &before, int count,
                const Work &work);

/// Returns the seconds of a kernel. `seconds` is the time from its beginning to
/// that of the next one, and `gap` is the same time for a nearly empty kernel.
double withoutGap(double seconds, double gap);

/// Returns work that keeps the device busy for so long that the host is ahead
/// of it while it issues the work to be measured. Works on libtorch's current
/// stream.
Work makeBacklog(c10::Device device, const DeviceTimer &time);

} // namespace fcdp::probe
