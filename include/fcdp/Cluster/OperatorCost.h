// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dialects/Aten/Aten.h"
#include "fcdp/Cluster/Cluster.h"

#include <optional>
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
  /// The shape of the matrix product that the operator computes `products`
  /// times; not used by fused attention.
  Product product;
  unsigned products = 0;
  /// The size that `product.batch` groups divide among them, each by its
  /// expert's load; null if there are no groups.
  double Product::*divided = nullptr;
  /// Set if the arithmetic is that of fused attention.
  std::optional<AttentionWork> attention;
  /// Bytes read from and written to memory, each value once.
  double bytes = 0;
};

/// Returns the size of a value, or 0 if its type has none.
double countBytes(mlir::Value value);

/// Derives the work of `call` from the types of its operands and results.
OperatorWork measureWork(aten::CallOp call);

/// Returns the seconds for the arithmetic of `work` at the device's peak rate.
double peakTimeOfWork(const Device &device, const OperatorWork &work);

/// Returns the seconds for `work`: the longer of its arithmetic and its memory
/// traffic. `expertSkew` is that of a mixture's experts (Cluster::expertSkew).
double costOfWork(const Device &device, const OperatorWork &work,
                  double expertSkew);

/// Returns the key of `call` in a profile: its name, the types of its operands,
/// and the types of those results that are used.
std::string keyOfCall(aten::CallOp call);

} // namespace fcdp
