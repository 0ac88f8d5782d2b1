// SPDX-License-Identifier: Apache-2.0
//
// Proves that the documents of a row are one after another.
#pragma once

#include "dialects/Aten/Aten.h"

#include <optional>

namespace fcdp {

/// Documents whose tokens are next to each other in each row, in the order of
/// their positions, whatever the inputs are.
struct DocumentOrder {
  /// The most documents that a row can have, or nothing if each token may be
  /// one.
  std::optional<int64_t> most;
};

/// Derives the order of `documents` [rows, tokens] from the calls that compute
/// it. `positions` has the same shape, or is null if tokens are in the order of
/// the row. Errs on the side of nothing: documents that are an input have no
/// order, because the host does not look at their values.
std::optional<DocumentOrder> findDocumentOrder(mlir::Value documents,
                                               mlir::Value positions);

/// Returns the value whose rows `rows` [rows, tokens] shows, one by one or one
/// for all; `rows` if no other. Null if `rows` is null. Two values of one shape
/// and source are equal.
mlir::Value getSourceOfRows(mlir::Value rows);

} // namespace fcdp
