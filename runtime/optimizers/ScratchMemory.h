// SPDX-License-Identifier: Apache-2.0
//
// Places an update's temporary results in one tensor of bytes.
#pragma once

#include <ATen/core/Tensor.h>
#include <utility>

namespace fcdp {

/// Returns the bytes that `elements` of `width` bytes need. Places begin at
/// multiples of 64 bytes.
inline int64_t placeBytes(int64_t elements, int64_t width) {
  constexpr int64_t alignment = 64;
  return (elements * width + alignment - 1) / alignment * alignment;
}

/// Takes tensors from memory, one after another. Used by one thread.
class ScratchMemory {
public:
  explicit ScratchMemory(at::Tensor bytes) : bytes(std::move(bytes)) {}

  at::Tensor take(at::IntArrayRef shape, at::ScalarType type) {
    int64_t elements = c10::multiply_integers(shape);
    auto width = int64_t(c10::elementSize(type));
    at::Tensor place =
        bytes.narrow(0, offset, elements * width).view(type).view(shape);
    offset += placeBytes(elements, width);
    return place;
  }

private:
  at::Tensor bytes;
  int64_t offset = 0;
};

} // namespace fcdp
