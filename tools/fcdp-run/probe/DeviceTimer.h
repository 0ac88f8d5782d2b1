// SPDX-License-Identifier: Apache-2.0
//
// Times work on a GPU by the device's clock.
#pragma once

#include <c10/core/Device.h>
#include <functional>

namespace fcdp::run {

using Work = std::function<void()>;
/// Returns the seconds in which a device does the second piece of work behind
/// the first. All ranks measure at the same time and get the same number.
using DeviceTimer = std::function<double(const Work &before, const Work &)>;

/// Returns the seconds of one of `count` runs of `work`, after one that is not
/// counted.
double timeEach(const DeviceTimer &time, const Work &before, int count,
                const Work &work);

/// Returns the seconds of a kernel, of `seconds` from its begin to the next
/// one's, where `gap` are those of a kernel with next to nothing to do.
double withoutGap(double seconds, double gap);

/// Returns work that keeps the device busy so long that the host is ahead of it
/// while it issues what is measured behind. Works on libtorch's current stream.
Work makeBacklog(c10::Device device, const DeviceTimer &time);

} // namespace fcdp::run
