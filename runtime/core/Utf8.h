// SPDX-License-Identifier: Apache-2.0
//
// Texts of the user's, such as names of files, which may have any bytes.
#pragma once

#include <string>
#include <string_view>

namespace fcdp {

/// Returns the text in UTF-8, which JSON needs: each byte that is no part of a
/// character is written as "\xff". Other texts stay as they are.
std::string toUtf8(std::string_view text);

} // namespace fcdp
