// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dialects/Aten/Aten.h"
#include "fcdp/Cluster/Cluster.h"

#include <string>

namespace fcdp {

/// What an operator computes and moves.
struct OperatorWork {
  /// Floating-point operations, a multiplication and an addition being two.
  double flops = 0;
  /// Of them, those that compute again what the forward pass has computed.
  double repeatedFlops = 0;
  /// The type of their operands.
  mlir::Type type;
  /// The products are those of attention.
  bool isAttention = false;
  /// Bytes read from memory and written to it, each value once.
  double bytes = 0;
};

/// From the types of operands and results.
OperatorWork measureWork(aten::CallOp call);

/// Seconds for the arithmetic of `work` at the device's peak rate.
double peakTimeOfWork(const Device &device, const OperatorWork &work);

/// Seconds for `work`: its arithmetic and its memory traffic, one after the
/// other. Measured runs (benchmarks/simulator) are told better
/// by the sum than by the greater of the two, as a kernel computes little while
/// it loads its first operands and stores its results; so small and thin
/// products reach less of the peak rate.
double costOfWork(const Device &device, const OperatorWork &work);

/// By which a profile has the operator: its name, and types of operands and of
/// those results that are used.
std::string keyOfCall(aten::CallOp call);

} // namespace fcdp
