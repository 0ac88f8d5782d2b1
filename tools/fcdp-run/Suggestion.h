// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace fcdp::run {

/// Returns the known name that differs from `given` in the fewest letters, at
/// most two and fewer than half of them, or "" if there is none. It is the rule
/// of the compiler's tools, which the runtime does not link.
std::string nearestName(const std::string &given,
                        const std::vector<std::string> &known);

} // namespace fcdp::run
