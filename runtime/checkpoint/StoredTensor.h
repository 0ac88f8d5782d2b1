// SPDX-License-Identifier: Apache-2.0
//
// A tensor as a file stores it.
#pragma once

#include "core/StridedLayout.h"
#include "plan/Manifest.h"

#include <cstddef>
#include <memory>
#include <span>

namespace fcdp {

/// A strided part of a storage, which it lies inside. Immutable, hence
/// thread-safe.
struct StoredTensor : StridedLayout {
  DType dtype;
  std::span<const std::byte> storage;
  /// Keeps the storage alive.
  std::shared_ptr<const void> owner;
};

/// Throws std::runtime_error if a shape has more elements than any file.
void checkShape(const Shape &shape);

/// Throws std::runtime_error if an element lies outside the storage.
void checkBounds(const StoredTensor &tensor);

/// Copies elements [first, first + count), counted in row-major order, to
/// `target`, packed.
void copyElements(const StoredTensor &tensor, int64_t first, int64_t count,
                  std::byte *target);

} // namespace fcdp
