// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <cstdint>
#include <tuple>
#include <vector>

namespace fcdp {

/// The archive that has the value of a constant: that of the evaluation, or of
/// a variant of the step.
struct ConstantSource {
  bool isEvaluation = false;
  uint32_t variant = 0;

  bool operator<(const ConstantSource &other) const {
    return std::tie(isEvaluation, variant) <
           std::tie(other.isEvaluation, other.variant);
  }
};

/// Returns the contiguous bytes of the tensor with that PyTorch name in that
/// archive, or none if the archive was exported without weights.
using TensorReader = llvm::function_ref<llvm::Expected<std::vector<char>>(
    llvm::StringRef name, ConstantSource source)>;

} // namespace fcdp
