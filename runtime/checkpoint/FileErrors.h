// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace fcdp {

/// Throws "PATH: cannot be DOING: " and what errno says, as std::runtime_error.
[[noreturn]] void throwErrno(const std::string &path, const std::string &doing);

/// Throws "PATH: MESSAGE", as std::runtime_error.
[[noreturn]] void throwAt(const std::string &path, const std::string &message);

} // namespace fcdp
