// SPDX-License-Identifier: Apache-2.0
//
// Combines numbers of all ranks, by a function that a job provides.
#pragma once

#include <functional>
#include <span>
#include <vector>

namespace fcdp {

/// Returns the numbers of all ranks in rank order. All ranks must call it with
/// equally many. Errors call the exchange `what`.
using GatherOverRanks = std::function<std::vector<double>(
    std::span<const double> own, const char *what)>;

/// Returns the sum of each number over all ranks, added in rank order.
std::vector<double> sumOverRanks(std::span<const double> own, const char *what,
                                 const GatherOverRanks &gather);

} // namespace fcdp
