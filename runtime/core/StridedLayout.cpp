// SPDX-License-Identifier: Apache-2.0
#include "core/StridedLayout.h"

#include <algorithm>
#include <cstring>

namespace fcdp {

namespace {

constexpr int64_t kGreatest = int64_t(1) << 62;

/// Returns the elements of the last dimensions that lie in memory without
/// gaps, and sets `outerDims` to the number of the other dimensions.
int64_t runLength(const StridedLayout &layout, size_t &outerDims) {
  int64_t run = 1;
  outerDims = layout.shape.size();
  while (outerDims > 0 && (layout.shape[outerDims - 1] == 1 ||
                           layout.strides[outerDims - 1] == run)) {
    run *= layout.shape[outerDims - 1];
    --outerDims;
  }
  return run;
}

/// Returns the position in the storage, in elements, of run `index` of the
/// outer dimensions.
int64_t positionOfRun(const StridedLayout &layout, size_t outerDims,
                      int64_t index) {
  int64_t position = layout.offset;
  for (size_t d = outerDims; d-- > 0;) {
    position += index % layout.shape[d] * layout.strides[d];
    index /= layout.shape[d];
  }
  return position;
}

} // namespace

std::optional<StridedExtent> measure(const StridedLayout &layout) {
  __int128 elements = 1, last = layout.offset;
  for (size_t d = 0; d < layout.shape.size(); ++d) {
    int64_t extent = layout.shape[d];
    elements *= extent;
    last += __int128(std::max<int64_t>(extent - 1, 0)) * layout.strides[d];
    if (elements >= kGreatest || last >= kGreatest)
      return std::nullopt;
  }
  return StridedExtent{int64_t(elements), int64_t(last) + 1};
}

std::vector<int64_t> contiguousStrides(const std::vector<int64_t> &shape) {
  std::vector<int64_t> strides(shape.size());
  int64_t stride = 1;
  for (size_t d = shape.size(); d-- > 0;) {
    strides[d] = stride;
    stride *= shape[d];
  }
  return strides;
}

void copyElements(const StridedLayout &layout, size_t elementBytes,
                  const std::byte *storage, int64_t first, int64_t count,
                  std::byte *target) {
  size_t outerDims;
  int64_t run = runLength(layout, outerDims);
  while (count > 0) {
    int64_t within = first % run;
    int64_t copied = std::min(count, run - within);
    int64_t position = positionOfRun(layout, outerDims, first / run) + within;
    std::memcpy(target, storage + position * elementBytes,
                copied * elementBytes);
    target += copied * elementBytes;
    first += copied;
    count -= copied;
  }
}

} // namespace fcdp
