// SPDX-License-Identifier: Apache-2.0
//
// The bytes that a planned module sends and copies.
#pragma once

#include "dialects/Fcdp/Fcdp.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "runtime/core/Links.h"

namespace fcdp {

/// Bytes that one node sends or copies, over all its ranks.
struct LinkBytes : LinkArray<uint64_t> {
  /// Adds `times` times the bytes of `other`. A count that overflows stays at
  /// the greatest value.
  void add(const LinkBytes &other, uint64_t times = 1);
};

/// Returns the bytes that one rank sends and copies in `op`. It assumes that
/// every part is sent directly to its rank, as the runtime does over Gloo, also
/// in collectives over both axes.
LinkBytes predictTraffic(mlir::Operation *op, MeshOp mesh);

/// Returns the bytes that one run of `function` sends and copies.
LinkBytes predictTraffic(mlir::func::FuncOp function, MeshOp mesh);

/// Returns the bytes of a rank's host memory through which copies between its
/// GPU and files pass, a multiple of kFileBlock; 0 if there are none. A part of
/// it has up to a quarter of the largest piece, so that short pieces, too, are
/// copied while others are read.
int64_t countFileWindow(mlir::ModuleOp module);
/// Returns the place of that memory in a planned module, at the end of the
/// rank's part of the host arena. Null if there is none.
BufferAttr getFileWindow(mlir::ModuleOp module);

/// Returns the sizes of the arenas, which end with their last buffers. The size
/// of the host arena is per node, others are per rank.
ArenaArray<uint64_t> measureArenas(mlir::ModuleOp module);

} // namespace fcdp
