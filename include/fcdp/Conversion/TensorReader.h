// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <cstddef>
#include <vector>

namespace fcdp {

/// Returns the contiguous bytes of the tensor with that PyTorch name in the
/// archive of that number (getArchives), or none if the archive was exported
/// without weights.
using TensorReader = llvm::function_ref<llvm::Expected<std::vector<char>>(
    llvm::StringRef name, size_t archive)>;

} // namespace fcdp
