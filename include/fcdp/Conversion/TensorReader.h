// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <vector>

namespace fcdp {

/// Gives the contiguous bytes of the tensor of that PyTorch name, or none if
/// the archive was exported without weights.
using TensorReader =
    llvm::function_ref<llvm::Expected<std::vector<char>>(llvm::StringRef)>;

} // namespace fcdp
