// SPDX-License-Identifier: Apache-2.0
#include "weights/StoredTensor.h"

#include "core/SumKernels.h"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <vector>

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

static void requireWhole(const StoredTensor &tensor) {
  if (tensor.owner)
    tensor.owner->requireWhole();
}

static void copyUnchecked(const StoredTensor &tensor, int64_t first,
                          int64_t count, std::byte *target) {
  copyElements(tensor, byteSize(tensor.dtype), tensor.storage.data(), first,
               count, target);
}

void copyElements(const StoredTensor &tensor, int64_t first, int64_t count,
                  std::byte *target) {
  copyUnchecked(tensor, first, count, target);
  requireWhole(tensor);
}

bool haveSameValues(const StoredTensor &one, const StoredTensor &other) {
  if (one.dtype != other.dtype || one.shape != other.shape)
    return false;
  if (one.storage.data() == other.storage.data() &&
      one.offset == other.offset && one.strides == other.strides)
    return true;
  constexpr int64_t most = 1 << 20;
  const int64_t width = int64_t(byteSize(one.dtype));
  const int64_t all = numElements(one.shape);
  std::vector<std::byte> parts[2];
  for (int64_t done = 0; done < all; done += most / width) {
    int64_t count = std::min(most / width, all - done);
    const StoredTensor *tensors[] = {&one, &other};
    for (size_t i = 0; i < 2; ++i) {
      parts[i].resize(size_t(count * width));
      copyElements(*tensors[i], done, count, parts[i].data());
    }
    if (parts[0] != parts[1])
      return false;
  }
  return true;
}

bool isConvertible(DType from, DType to) {
  return from == to || (isSummable(from) && isSummable(to));
}

void convertElements(const StoredTensor &tensor, int64_t first, int64_t count,
                     DType dtype, std::byte *target) {
  if (tensor.dtype == dtype)
    return copyElements(tensor, first, count, target);
  // Elements of a file need not be aligned.
  constexpr int64_t most = 4096;
  alignas(8) std::array<std::byte, most * 8> block;
  for (int64_t done = 0; done < count; done += most) {
    int64_t elements = std::min(most, count - done);
    copyUnchecked(tensor, first + done, elements, block.data());
    convertElements(target + size_t(done) * byteSize(dtype), dtype,
                    block.data(), tensor.dtype, size_t(elements));
  }
  requireWhole(tensor);
}

} // namespace fcdp
