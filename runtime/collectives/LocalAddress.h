// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace fcdp {

/// Returns the address of the interface by which this machine reaches `host`.
/// Throws std::runtime_error if there is none.
std::string localAddressToward(const std::string &host);

/// Returns the host name of this machine.
std::string hostName();

/// Returns what tells this machine's system from any other that runs: Linux
/// draws it when it boots. Machines that are clones of one image have the same
/// host name, and containers of one machine have different ones. Returns the
/// host name if the system does not say it.
std::string machineId();

} // namespace fcdp
