// SPDX-License-Identifier: Apache-2.0
//
// The archive's data types and tensor descriptions as MLIR types.
#pragma once

#include "fcdp/Support/Json.h"
#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/Twine.h"

namespace fcdp::pt2 {

/// Dimensions that PyTorch allows.
inline constexpr size_t kMaxRank = 64;

/// The type of a torch._export ScalarType (not c10's numbers), or null.
mlir::Type getElementType(int64_t scalarType, mlir::MLIRContext *context);

/// Bytes of one element of a ScalarType, or 0 if it is unknown.
int64_t getElementBytes(int64_t scalarType);

/// The type that a TensorMeta describes. Errors begin with `what`: the value's
/// kind and name.
llvm::Expected<mlir::RankedTensorType>
getTensorType(const Json &meta, const llvm::Twine &what,
              mlir::MLIRContext *context);

/// The symbol's name in a SymInt that is an expression, or its whole text.
llvm::StringRef getSymbol(const Json &symInt);

} // namespace fcdp::pt2
