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

/// Returns an identifier of this machine's running system, which Linux draws at
/// boot. The host name would not do: clones of one image have the same name,
/// and containers of one machine have different ones. Returns the host name if
/// the system gives no identifier.
std::string machineId();

} // namespace fcdp
