// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dialects/Aten/Aten.h"

namespace fcdp {

/// The memory traffic of an operator that runs in one kernel with its
/// neighbours (Fusion::pointwise).
struct FusedTraffic {
  /// Bytes of the values that the kernel reads or writes for this operator.
  double bytes = 0;
  /// Whether the operator is the last of its kernel. The launch is counted
  /// there.
  bool isLast = true;
};

/// Returns whether `call` may be joined with neighbours: it reads and writes
/// memory and has no product.
bool canBeFused(aten::CallOp call);

/// Returns the traffic of a call that can be fused. It is joined with an
/// operator that it reads from if both work on the same number of elements and
/// no product is between them. A value that only its own kernel reads is not
/// written.
FusedTraffic measureFusedTraffic(aten::CallOp call);

} // namespace fcdp
