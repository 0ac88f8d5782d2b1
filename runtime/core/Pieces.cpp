// SPDX-License-Identifier: Apache-2.0
#include "core/Pieces.h"

#include <limits>

namespace fcdp {

static constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();
static int64_t mostPieceElements = kNoLimit;

int64_t pieceElements(int64_t standard) {
  return std::min(standard, mostPieceElements);
}

SmallPieces::SmallPieces(int64_t most) { mostPieceElements = most; }
SmallPieces::~SmallPieces() { mostPieceElements = kNoLimit; }

} // namespace fcdp
