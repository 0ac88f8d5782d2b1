// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dialects/Aten/Aten.h"

namespace fcdp::aten {

/// The greatest number of bytes of a tensor. No device has larger tensors, and
/// sums of the bytes of a step's tensors do not overflow.
inline constexpr int64_t kMostTensorBytes = int64_t(1) << 48;

/// Checks that no tensor of a call has more than kMostTensorBytes bytes, if its
/// type determines the number.
mlir::LogicalResult verifySizes(CallOp call);

/// Compares the shape of the first result with those of the operands, for
/// operators whose rule is in the table. Dynamic dimensions equal any other.
mlir::LogicalResult verifyResultShape(CallOp call);

} // namespace fcdp::aten
