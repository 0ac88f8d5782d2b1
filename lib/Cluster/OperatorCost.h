// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dialects/Aten/Aten.h"
#include "fcdp/Cluster/Cluster.h"

namespace fcdp {

/// What an operator computes and moves.
struct OperatorWork {
  /// Floating-point operations, a multiplication and an addition being two.
  double flops = 0;
  /// The type that they are done in.
  mlir::Type type;
  /// The harmonic mean of the sizes of its matrix products, m x k by k x n.
  double size = 0;
  /// The products are those of attention.
  bool isAttention = false;
  /// Bytes read from memory and written to it, each value once.
  double bytes = 0;
};

/// From the types of operands and results.
OperatorWork measureWork(aten::CallOp call);

/// Seconds for `work`: as long as its arithmetic or its memory traffic takes,
/// whichever is longer (the roofline model, Williams et al. 2009). A product of
/// size s reaches s / (s + half_efficiency_size) of what a very large one does:
/// time for s operations and time for a tile's operands add up.
double costOfWork(const Device &device, const OperatorWork &work);

} // namespace fcdp
