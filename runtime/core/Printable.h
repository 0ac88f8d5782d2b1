// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace fcdp {

/// Returns a line of a message with control characters escaped as "\x1b" and
/// "\n". Names of parameters and files may contain them, and a terminal would
/// interpret them.
std::string printable(std::string_view line);

} // namespace fcdp
