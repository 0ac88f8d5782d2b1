// SPDX-License-Identifier: Apache-2.0
//
// Functions that the checks of problems and solutions share.
#pragma once

#include "fcdp/Cluster/Cost.h"
#include "llvm/Support/Error.h"

#include <cmath>

namespace fcdp {

/// Returns an error with a message that `format` describes as in printf.
template <typename... Ts>
llvm::Error makeError(const char *format, const Ts &...values) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), format,
                                 values...);
}

inline bool isDuration(double seconds) {
  return std::isfinite(seconds) && seconds >= 0;
}

inline bool isGood(const Cost &cost) {
  return isDuration(cost.latency) && isDuration(cost.seconds);
}

} // namespace fcdp
