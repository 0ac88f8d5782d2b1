// SPDX-License-Identifier: Apache-2.0
//
// A tensor in the form in which a file stores it.
#pragma once

#include "core/StridedLayout.h"
#include "files/MappedFile.h"
#include "plan/StepPlan.h"

#include <cstddef>
#include <memory>
#include <span>

namespace fcdp {

/// A strided part of a storage, within its bounds. Immutable, hence
/// thread-safe.
struct StoredTensor : StridedLayout {
  DType dtype;
  std::span<const std::byte> storage;
  /// Keeps the storage alive.
  std::shared_ptr<const MappedFile> owner;
};

/// Throws std::runtime_error if a shape has more elements than any file.
void checkShape(const Shape &shape);

/// Throws std::runtime_error if an element is outside the storage.
void checkBounds(const StoredTensor &tensor);

/// Copies the elements [first, first + count), in row-major order, to the
/// contiguous `target`. Throws std::runtime_error if the file has shrunk.
void copyElements(const StoredTensor &tensor, int64_t first, int64_t count,
                  std::byte *target);

/// Returns whether both have the same type, shape and bits. Reads them in parts
/// of a megabyte. Throws std::runtime_error if a file has shrunk.
bool haveSameValues(const StoredTensor &one, const StoredTensor &other);

/// Returns whether elements of one type can be stored as another: they are
/// equal, or both are floating types.
bool isConvertible(DType from, DType to);

/// Does the same as copyElements, converts to `dtype` and rounds to nearest
/// even. The types must be convertible.
void convertElements(const StoredTensor &tensor, int64_t first, int64_t count,
                     DType dtype, std::byte *target);

} // namespace fcdp
