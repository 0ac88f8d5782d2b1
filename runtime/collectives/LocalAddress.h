// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace fcdp {

/// The address of this machine on the way to `host`: that of the interface
/// that the system would send by. Throws std::runtime_error if there is none.
std::string localAddressToward(const std::string &host);

/// This machine's host name.
std::string hostName();

} // namespace fcdp
