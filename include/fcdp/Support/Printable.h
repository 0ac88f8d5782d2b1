// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "llvm/ADT/StringRef.h"

#include <string>

namespace fcdp {

/// Returns a line of a message with control characters as "\x1b" and "\n", as
/// names of parameters and files may have them: a terminal would obey them.
std::string printable(llvm::StringRef line);

} // namespace fcdp
