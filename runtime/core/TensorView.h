// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/Backend.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace fcdp {

/// A tensor of the caller: contiguous, row-major, in host memory.
struct TensorView {
  const std::byte *data;
  DType dtype;
  std::vector<int64_t> shape;
};

} // namespace fcdp
