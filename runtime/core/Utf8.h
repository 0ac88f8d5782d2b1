// SPDX-License-Identifier: Apache-2.0
//
// Converts texts of the user, such as file names, which may contain any bytes.
#pragma once

#include <string>
#include <string_view>

namespace fcdp {

/// Returns the text in UTF-8, which JSON needs. A byte that is not part of a
/// valid character is written as "\xff". Valid texts stay as they are.
std::string toUtf8(std::string_view text);

} // namespace fcdp
