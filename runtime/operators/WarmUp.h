// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Device.h>

namespace fcdp {

/// Multiplies small matrices on `device`, so that the libraries behind products
/// take now what they keep: cuBLAS and cuBLASLt take a workspace at the first
/// product of a thread on a stream. Enqueues on libtorch's current stream.
/// Throws c10::Error.
void warmUpProducts(c10::Device device);

} // namespace fcdp
