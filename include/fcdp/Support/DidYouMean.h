// SPDX-License-Identifier: Apache-2.0
#ifndef FCDP_SUPPORT_DIDYOUMEAN_H
#define FCDP_SUPPORT_DIDYOUMEAN_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include <string>

namespace fcdp {

/// Returns "; did you mean 'NAME'?" with the known name that differs from
/// `given` in the fewest letters, at most two and fewer than half of them, or
/// "" if there is none.
std::string didYouMean(llvm::StringRef given,
                       llvm::ArrayRef<llvm::StringRef> known);

} // namespace fcdp

#endif // FCDP_SUPPORT_DIDYOUMEAN_H
