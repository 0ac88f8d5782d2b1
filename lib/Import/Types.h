// SPDX-License-Identifier: Apache-2.0
//
// Converts the archive's data types and tensor descriptions to MLIR types.
#pragma once

#include "fcdp/Support/Json.h"
#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/Twine.h"

namespace fcdp::pt2 {

/// The greatest number of dimensions that PyTorch allows.
inline constexpr size_t kMaxRank = 64;

/// Returns the type of a torch._export ScalarType (its numbers differ from
/// c10's), or null if it is unknown.
mlir::Type getElementType(int64_t scalarType, mlir::MLIRContext *context);

/// Returns the bytes of one element of a ScalarType, or 0 if it is unknown.
int64_t getElementBytes(int64_t scalarType);

/// Returns the type that a TensorMeta describes. Errors begin with `what`, the
/// kind and name of the value.
llvm::Expected<mlir::RankedTensorType>
getTensorType(const Json &meta, const llvm::Twine &what,
              mlir::MLIRContext *context);

/// Returns the symbol's name in a SymInt expression, or the whole text if it
/// has none.
llvm::StringRef getSymbol(const Json &symInt);

} // namespace fcdp::pt2
