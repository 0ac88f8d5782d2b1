// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dialects/Aten/Aten.h"

namespace fcdp::aten {

/// A tensor with more bytes is on no device, and sums of the bytes of a step's
/// tensors do not overflow.
inline constexpr int64_t kMostTensorBytes = int64_t(1) << 48;

/// Checks that the tensors of a call have no more bytes than that, as far as
/// their types say how many.
mlir::LogicalResult verifySizes(CallOp call);

/// Compares the shape of the first result with those of the operands, for
/// operators of which the table says how it follows from them. Dynamic
/// dimensions are equal to any.
mlir::LogicalResult verifyResultShape(CallOp call);

} // namespace fcdp::aten
