// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace fcdp {

/// Throws std::runtime_error with "PATH: cannot be DOING: " and the text of
/// errno.
[[noreturn]] void throwErrno(const std::string &path, const std::string &doing);

/// Throws std::runtime_error with "PATH: MESSAGE".
[[noreturn]] void throwAt(const std::string &path, const std::string &message);

} // namespace fcdp
