// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dialects/Aten/Aten.h"
#include "fcdp/Cluster/Cluster.h"

#include <string>

namespace fcdp {

/// The arithmetic and the memory traffic of an operator.
struct OperatorWork {
  /// Floating-point operations. A multiplication and an addition count as two.
  double flops = 0;
  /// The part of `flops` that repeats work of the forward pass.
  double repeatedFlops = 0;
  /// The element type of the operands of that arithmetic.
  mlir::Type type;
  /// Whether the arithmetic is that of fused attention.
  bool isAttention = false;
  /// Bytes read from and written to memory, each value once.
  double bytes = 0;
};

/// Derives the work of `call` from the types of its operands and results.
OperatorWork measureWork(aten::CallOp call);

/// Returns the seconds for the arithmetic of `work` at the device's peak rate.
double peakTimeOfWork(const Device &device, const OperatorWork &work);

/// Returns the seconds for `work`: the sum of its arithmetic and its memory
/// traffic. The sum predicts measured runs (benchmarks/simulator) better than
/// the maximum of the two, because a kernel computes little while it loads its
/// first operands and stores its results. So small and thin products reach less
/// of the peak rate.
double costOfWork(const Device &device, const OperatorWork &work);

/// Returns the key of `call` in a profile: its name, the types of its operands,
/// and the types of those results that are used.
std::string keyOfCall(aten::CallOp call);

} // namespace fcdp
