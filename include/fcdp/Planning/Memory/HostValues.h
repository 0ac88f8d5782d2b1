// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dialects/Fcdp/Fcdp.h"
#include "llvm/ADT/MapVector.h"

namespace fcdp {

/// The arena of stored values.
inline constexpr Arena kStoredArena = Arena::host;

/// The places of stored values in a rank's part of the host arena, after its
/// states.
struct HostValues {
  /// The offset of the value or the gradient that each operation stores, from
  /// the end of the states.
  llvm::MapVector<mlir::Operation *, int64_t> offsets;
  /// The bytes for all of them, which all functions share.
  int64_t bytes = 0;
};

/// Places the values that each function of a scheduled module stores. A value's
/// memory is in use from its store to the release of what is loaded from it,
/// where compute has waited for the load. A later store waits for compute, so
/// it may use the memory again. Gradients that are stored for updates on the
/// host have `kHostWindows` windows, one after the other, in turn.
HostValues planHostValues(mlir::ModuleOp module);

} // namespace fcdp
