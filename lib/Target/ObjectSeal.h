// SPDX-License-Identifier: Apache-2.0
//
// The checksum at the end of a shared object (runtime/include/fcdp/runtime.h).
#pragma once

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <string>

namespace fcdp {

/// Returns the seal of an object.
std::string makeSeal(llvm::StringRef object);

/// Refuses a file that has a seal, but not its own. One that was linked by hand
/// has none.
llvm::Error checkSeal(llvm::StringRef file);

} // namespace fcdp
