// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/StoredTensor.h"

#include <stdexcept>

namespace fcdp {

void checkShape(const Shape &shape) {
  constexpr int64_t most = int64_t(1) << 48;
  __int128 elements = 1;
  for (int64_t extent : shape) {
    elements *= extent;
    if (extent > most || elements > most)
      throw std::runtime_error("the shape " + toString(shape) +
                               " has too many elements");
  }
}

void checkBounds(const StoredTensor &tensor) {
  if (numElements(tensor.shape) == 0)
    return;
  std::optional<StridedExtent> extent = measure(tensor);
  int64_t stored = tensor.storage.size() / byteSize(tensor.dtype);
  if (!extent || extent->end > stored)
    throw std::runtime_error("expected a storage of at least " +
                             (extent ? std::to_string(extent->end) : "2^62") +
                             " elements of " + name(tensor.dtype) + ", got " +
                             std::to_string(tensor.storage.size()) + " bytes");
}

void copyElements(const StoredTensor &tensor, int64_t first, int64_t count,
                  std::byte *target) {
  copyElements(tensor, byteSize(tensor.dtype), tensor.storage.data(), first,
               count, target);
}

} // namespace fcdp
