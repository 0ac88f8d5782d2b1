// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "llvm/ADT/StringRef.h"

#include <string>

namespace fcdp {

/// Returns a line of a message with control characters escaped as "\x1b" and
/// "\n". Names of parameters and files may contain them, and a terminal would
/// interpret them.
std::string printable(llvm::StringRef line);

} // namespace fcdp
