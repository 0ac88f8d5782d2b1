// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace fcdp::run {

/// Returns a description of this machine and this build for a problem report:
/// versions, processors, memory, GPUs, links and limits, a line each. It
/// contains no host name, address or user, and no values of variables that may
/// be secret. A value that cannot be read is "unknown".
std::string describeEnvironment();

} // namespace fcdp::run
