// SPDX-License-Identifier: Apache-2.0
//
// Divides loops over long tensors into pieces.
#pragma once

#include <algorithm>
#include <cstdint>

namespace fcdp {

/// Returns the number of elements that a loop processes at once: `standard`, or
/// fewer in tests.
int64_t pieceElements(int64_t standard);

/// Limits loops that begin while it lives to `most` elements at once, so that
/// tests can process small tensors in several pieces. Created and destroyed
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
