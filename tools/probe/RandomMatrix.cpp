// SPDX-License-Identifier: Apache-2.0
#include "probe/RandomMatrix.h"

#include "plan/TorchTypes.h"

#include <ATen/ops/empty.h>

namespace fcdp::probe {

at::Tensor makeRandomMatrix(c10::Device device, DType type, int64_t rows,
                            int64_t columns) {
  auto options = at::TensorOptions(toScalarType(type)).device(device);
  return at::empty({rows, columns}, options).normal_();
}

} // namespace fcdp::probe
