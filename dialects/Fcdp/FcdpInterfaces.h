// SPDX-License-Identifier: Apache-2.0
//
// The interfaces of the dialect's operations, and queries by them that accept
// any operation.
#pragma once

#include "dialects/Fcdp/FcdpAttrs.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/SymbolTable.h"

namespace fcdp {

class BufferedOpInterface;
class CollectiveOpInterface;

/// Returns whether a collective is over `axis`, possibly among others.
bool isOver(mlir::ArrayAttr axes, Axis axis);
/// Returns the axes of a collective over `axis` alone.
mlir::ArrayAttr oneAxis(mlir::MLIRContext *context, Axis axis);

/// Verifies the places of `op`: its result and its scratch memory, if given,
/// are device memory of the right size.
mlir::LogicalResult verifyPlaces(BufferedOpInterface op);

/// Verifies the symbols, the axes, the types and the sizes of `op`, and what is
/// particular to it.
mlir::LogicalResult verifyCollective(CollectiveOpInterface op,
                                     mlir::SymbolTableCollection &symbols);
/// Verifies the form in which `op` sends values between nodes, and the state
/// that its messages need.
mlir::LogicalResult verifyMessages(CollectiveOpInterface op,
                                   mlir::SymbolTableCollection &symbols);

/// Verifies that no operation uses `value` after `op`.
mlir::LogicalResult verifyLastUse(mlir::Operation *op, mlir::Value value);

} // namespace fcdp

#include "dialects/Fcdp/FcdpInterfaces.h.inc"

namespace fcdp {

/// Returns the stream that `op` runs on.
Stream getStream(mlir::Operation *op);

/// Returns the stream that the schedule issues `op` on.
Stream chooseStream(mlir::Operation *op);

/// Return `op` if it is a gather, or a reduction; null otherwise. `op` may be
/// null.
CollectiveOpInterface asGather(mlir::Operation *op);
CollectiveOpInterface asReduction(mlir::Operation *op);

/// Returns whether the plan gives `op`'s result a place. `op` may be null.
bool isBuffered(mlir::Operation *op);

/// Returns the place of `op`'s result; null if it has none.
BufferAttr getBuffer(mlir::Operation *op);

/// Returns the state in whose memory `op`'s result is, or null.
mlir::FlatSymbolRefAttr getInto(mlir::Operation *op);

/// Returns the parameter, bucket or state that `op` works on, or null.
mlir::FlatSymbolRefAttr getStorage(mlir::Operation *op);

/// Returns whether the runtime calls operators of libtorch for `op`. They
/// allocate and free memory while it runs.
bool runsOperators(mlir::Operation *op);

} // namespace fcdp
