// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dialects/Fcdp/Enums.h"
#include "llvm/Support/Error.h"

namespace fcdp {

/// Parses `unit`, `module` or `checkpoint`. Errors list them.
llvm::Expected<Wrap> parseWrap(llvm::StringRef text);

} // namespace fcdp
