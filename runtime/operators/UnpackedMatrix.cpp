// SPDX-License-Identifier: Apache-2.0
#include "operators/UnpackedMatrix.h"

#include "core/PackedBlocks.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <stdexcept>
#include <string>

namespace fcdp {

namespace {

/// The least number of values that a thread unpacks.
constexpr int64_t kGrain = 1 << 15;

DType typeOf(at::ScalarType type) {
  switch (type) {
  case at::kFloat:
    return DType::F32;
  case at::kBFloat16:
    return DType::BF16;
  case at::kHalf:
    return DType::F16;
  default:
    throw std::runtime_error(
        "expected matrices to be unpacked to f32, bf16 or f16, got " +
        std::string(c10::toString(type)));
  }
}

} // namespace

at::Tensor unpackMatrix(const at::Tensor &packed,
                        const std::vector<int64_t> &size, at::ScalarType dtype,
                        bool isNf4, Backend &backend) {
  if (size.size() != 2 || size[0] < 0 || size[1] < 0)
    throw std::runtime_error("expected the two sizes of a matrix");
  const PackedLayout layout = isNf4 ? PackedLayout::ofNf4(size[0] * size[1])
                                    : PackedLayout::ofInt8(size[0], size[1]);
  if (packed.scalar_type() != at::kByte || !packed.is_contiguous() ||
      packed.numel() != layout.countBytes())
    throw std::runtime_error("expected " + std::to_string(layout.countBytes()) +
                             " contiguous bytes of a packed matrix, got " +
                             std::to_string(packed.numel()) + " elements of " +
                             packed.toString());
  const DType type = typeOf(dtype);
  at::Tensor matrix = at::empty(size, packed.options().dtype(dtype));
  const auto *from = static_cast<const std::byte *>(packed.const_data_ptr());
  auto *to = static_cast<std::byte *>(matrix.mutable_data_ptr());
  if (!packed.device().is_cpu()) {
    if (reinterpret_cast<uintptr_t>(from) % PackedLayout::kScaleBytes != 0)
      throw std::runtime_error("expected a packed matrix at a multiple of 4 "
                               "bytes");
    backend.unpack(layout, from, type, to);
    return matrix;
  }
  const int64_t grain = std::max<int64_t>(1, kGrain / layout.blockValues);
  at::parallel_for(0, layout.countBlocks(), grain,
                   [&](int64_t first, int64_t end) {
                     unpackBlocks(layout, from, first, end, type, to);
                   });
  return matrix;
}

} // namespace fcdp
