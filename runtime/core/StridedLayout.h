// SPDX-License-Identifier: Apache-2.0
//
// The places of a tensor's elements in its storage, as archives describe them.
//
// The compiler reads constants with it, and the runtime reads weights. So it
// depends on neither LLVM nor libtorch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace fcdp {

/// The element at index (i0, i1, ...) is element offset + i0 strides[0] +
/// i1 strides[1] + ... of the storage. There is a stride for each dimension.
/// All numbers count elements and are not negative.
struct StridedLayout {
  std::vector<int64_t> shape, strides;
  int64_t offset = 0;
};

struct StridedExtent {
  /// The number of elements.
  int64_t elements = 0;
  /// One past the last element of the storage that belongs to the tensor. It
  /// means nothing for a tensor without elements.
  int64_t end = 0;
};

/// Returns none if one of the numbers does not fit 62 bits.
std::optional<StridedExtent> measure(const StridedLayout &layout);

/// Returns the strides of a tensor whose elements follow each other in
/// row-major order.
std::vector<int64_t> contiguousStrides(const std::vector<int64_t> &shape);

/// Copies elements [first, first + count), counted in row-major order, from
/// `storage` to `target`, without gaps. They must lie in the storage.
void copyElements(const StridedLayout &layout, size_t elementBytes,
                  const std::byte *storage, int64_t first, int64_t count,
                  std::byte *target);

} // namespace fcdp
