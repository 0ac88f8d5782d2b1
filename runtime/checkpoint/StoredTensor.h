// SPDX-License-Identifier: Apache-2.0
//
// A tensor as a file stores it.
#pragma once

#include "plan/Manifest.h"

#include <cstddef>
#include <memory>
#include <span>

namespace fcdp {

/// as_strided(storage, shape, strides, offset), in elements. Its bounds lie
/// inside the storage. Immutable, hence thread-safe.
struct StoredTensor {
  DType dtype;
  Shape shape;
  std::vector<int64_t> strides;
  int64_t offset = 0;
  std::span<const std::byte> storage;
  /// Keeps the storage alive.
  std::shared_ptr<const void> owner;
};

/// Strides of a contiguous tensor.
std::vector<int64_t> contiguousStrides(const Shape &shape);

/// Throws std::runtime_error if a shape has more elements than any file.
void checkShape(const Shape &shape);

/// Throws std::runtime_error if an element lies outside the storage.
void checkBounds(const StoredTensor &tensor);

/// Copies elements [first, first + count), counted in row-major order, to
/// `target`, packed.
void copyElements(const StoredTensor &tensor, int64_t first, int64_t count,
                  std::byte *target);

} // namespace fcdp
