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

} // namespace fcdp
