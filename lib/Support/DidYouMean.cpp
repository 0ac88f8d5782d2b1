// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Support/DidYouMean.h"

#include <algorithm>

std::string fcdp::didYouMean(llvm::StringRef given,
                             llvm::ArrayRef<llvm::StringRef> known) {
  constexpr size_t most = 2;
  size_t best = std::min(most + 1, (given.size() + 1) / 2);
  llvm::StringRef nearest;
  for (llvm::StringRef name : known)
    if (size_t distance = given.edit_distance(name); distance < best) {
      best = distance;
      nearest = name;
    }
  return nearest.empty() ? "" : "; did you mean '" + nearest.str() + "'?";
}
