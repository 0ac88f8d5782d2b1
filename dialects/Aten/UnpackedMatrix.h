// SPDX-License-Identifier: Apache-2.0
//
// Typed access to calls of fcdp.unpack_nf4 and fcdp.unpack_int8.
#pragma once

#include "dialects/Aten/Aten.h"

namespace fcdp::aten {

inline constexpr llvm::StringLiteral kUnpackNf4 = "fcdp.unpack_nf4.default";
inline constexpr llvm::StringLiteral kUnpackInt8 = "fcdp.unpack_int8.default";

/// Checks a call that unpacks a matrix. Other calls pass.
llvm::LogicalResult verifyUnpackedMatrix(CallOp call);

} // namespace fcdp::aten
