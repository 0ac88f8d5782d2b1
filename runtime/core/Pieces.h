// SPDX-License-Identifier: Apache-2.0
//
// Loops over long tensors take a piece at a time.
#pragma once

#include <algorithm>
#include <cstdint>

namespace fcdp {

/// Returns how many elements a loop takes at once that would take `standard`:
/// fewer only in tests.
int64_t pieceElements(int64_t standard);

/// While it lives, no loop that begins takes more than `most` elements at once.
/// It lets tests see more than one piece of small tensors. Made and destroyed
/// while no other thread calls pieceElements.
class SmallPieces {
public:
  explicit SmallPieces(int64_t most);
  ~SmallPieces();
  SmallPieces(const SmallPieces &) = delete;
  SmallPieces &operator=(const SmallPieces &) = delete;
};

/// Calls `visit(begin, elements)` with each piece of `most` of `elements`
/// elements, the last of which may be shorter.
template <typename Visit>
void forEachPiece(int64_t elements, int64_t most, Visit visit) {
  for (int64_t begin = 0; begin < elements; begin += most)
    visit(begin, std::min(most, elements - begin));
}

} // namespace fcdp
