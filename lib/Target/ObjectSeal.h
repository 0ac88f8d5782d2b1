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

/// Refuses a file whose seal does not match its content. A file that was linked
/// by hand has no seal, and passes.
llvm::Error checkSeal(llvm::StringRef file);

} // namespace fcdp
