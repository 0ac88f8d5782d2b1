// SPDX-License-Identifier: Apache-2.0
//
// Measures operators on a GPU by the device's clock.
#pragma once

#include "probe/DeviceTimer.h"
#include "probe/ProbedCluster.h"

#include <vector>

namespace fcdp::probe {

/// Returns rates of memory and of products of these types, and the gap between
/// two kernels. Copies access at most `mostBytes`. Before each measurement the
/// same work runs once without being counted. Works on libtorch's current
/// stream.
OperatorRates measureOperators(c10::Device device,
                               const std::vector<DType> &types,
                               const DeviceTimer &time, size_t mostBytes);

} // namespace fcdp::probe
