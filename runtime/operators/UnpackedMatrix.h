// SPDX-License-Identifier: Apache-2.0
//
// The operators fcdp.unpack_nf4 and fcdp.unpack_int8.
#pragma once

#include "core/Backend.h"

#include <ATen/core/Tensor.h>
#include <vector>

namespace fcdp {

/// Returns the matrix of `size` in the type `dtype` from its bytes, which are
/// contiguous. On a CPU all threads compute blocks, so the number of threads
/// does not change bits; on another device `backend` does it on the compute
/// stream. Throws std::runtime_error if the number of bytes is not that of such
/// a matrix.
at::Tensor unpackMatrix(const at::Tensor &packed,
                        const std::vector<int64_t> &size, at::ScalarType dtype,
                        bool isNf4, Backend &backend);

} // namespace fcdp
