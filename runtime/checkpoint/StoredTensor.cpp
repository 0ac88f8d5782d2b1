// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/StoredTensor.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace fcdp {

namespace {

/// How many of the last dimensions lie in memory without gaps, as one run.
size_t runLength(const StoredTensor &tensor, size_t &outerDims) {
  int64_t run = 1;
  outerDims = tensor.shape.size();
  while (outerDims > 0 && (tensor.shape[outerDims - 1] == 1 ||
                           tensor.strides[outerDims - 1] == run)) {
    run *= tensor.shape[outerDims - 1];
    --outerDims;
  }
  return run;
}

/// Position in the storage, in elements, of run `index` of the outer dims.
int64_t positionOfRun(const StoredTensor &tensor, size_t outerDims,
                      int64_t index) {
  int64_t position = tensor.offset;
  for (size_t d = outerDims; d-- > 0;) {
    position += index % tensor.shape[d] * tensor.strides[d];
    index /= tensor.shape[d];
  }
  return position;
}

} // namespace

std::vector<int64_t> contiguousStrides(const Shape &shape) {
  std::vector<int64_t> strides(shape.size());
  int64_t stride = 1;
  for (size_t d = shape.size(); d-- > 0;) {
    strides[d] = stride;
    stride *= shape[d];
  }
  return strides;
}

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
  __int128 last = tensor.offset;
  for (size_t d = 0; d < tensor.shape.size(); ++d)
    last += __int128(tensor.shape[d] - 1) * tensor.strides[d];
  int64_t stored = tensor.storage.size() / byteSize(tensor.dtype);
  if (last >= stored)
    throw std::runtime_error(
        "expected a storage of at least " +
        (last >> 62 ? "2^62" : std::to_string(int64_t(last) + 1)) +
        " elements of " + name(tensor.dtype) + ", got " +
        std::to_string(tensor.storage.size()) + " bytes");
}

void copyElements(const StoredTensor &tensor, int64_t first, int64_t count,
                  std::byte *target) {
  size_t outerDims;
  int64_t run = runLength(tensor, outerDims);
  size_t elementBytes = byteSize(tensor.dtype);
  while (count > 0) {
    int64_t within = first % run;
    int64_t copied = std::min(count, run - within);
    int64_t position = positionOfRun(tensor, outerDims, first / run) + within;
    std::memcpy(target, tensor.storage.data() + position * elementBytes,
                copied * elementBytes);
    target += copied * elementBytes;
    first += copied;
    count -= copied;
  }
}

} // namespace fcdp
