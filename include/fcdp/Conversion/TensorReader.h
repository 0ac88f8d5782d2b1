// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <vector>

namespace fcdp {

/// Gives the contiguous bytes of the tensor of that PyTorch name, in the
/// archive of the step or in that of the evaluation, or none if the archive was
/// exported without weights.
using TensorReader = llvm::function_ref<llvm::Expected<std::vector<char>>(
    llvm::StringRef name, bool isOfEvaluation)>;

} // namespace fcdp
