// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Device.h>

namespace fcdp {

/// Multiplies small matrices on `device`, so that the libraries for products
/// allocate now the memory that they keep: cuBLAS and cuBLASLt allocate a
/// workspace at the first product of a thread on a stream. Enqueues on
/// libtorch's current stream. Throws c10::Error.
void warmUpProducts(c10::Device device);

} // namespace fcdp
