// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

namespace fcdp {

/// Links the object file `object` into the shared object `output`.
llvm::Error linkSharedObject(llvm::StringRef object, llvm::StringRef output);

} // namespace fcdp
