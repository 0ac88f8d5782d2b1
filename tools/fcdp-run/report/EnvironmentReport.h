// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace fcdp::run {

/// Describes this machine and this build for a report of a problem: versions,
/// processors, memory, GPUs, links and limits, a line each. It has no host
/// name, address or user, and no values of variables that may be secret. What
/// cannot be read is "unknown".
std::string describeEnvironment();

} // namespace fcdp::run
