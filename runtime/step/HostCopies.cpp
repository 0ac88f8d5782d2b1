// SPDX-License-Identifier: Apache-2.0
#include "step/HostCopies.h"

#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros_like.h>

namespace fcdp {

std::span<std::byte> bytesOf(const at::Tensor &tensor) {
  return {static_cast<std::byte *>(tensor.mutable_data_ptr()), tensor.nbytes()};
}

std::span<std::byte> HostCopies::input(size_t set, size_t index) {
  if (set >= inputs.size())
    inputs.resize(set + 1);
  auto &own = inputs[set];
  own.resize(state.inputs.size());
  if (!own[index].defined())
    own[index] = at::empty_like(
        state.inputs[index],
        at::TensorOptions().device(at::kCPU).pinned_memory(true));
  return bytesOf(own[index]);
}

void HostCopies::uploadInputs(size_t set) {
  if (set >= inputs.size())
    return;
  for (size_t i = 0; i < inputs[set].size(); ++i)
    if (inputs[set][i].defined())
      state.inputs[i].copy_(inputs[set][i], /*non_blocking=*/true);
}

std::span<std::byte> HostCopies::of(const at::Tensor &tensor) {
  Copy &copy = copies[tensor.const_data_ptr()];
  copy.device = tensor;
  if (isUploaded)
    copy.host = tensor.to(at::kCPU);
  else if (!copy.host.defined())
    copy.host = at::zeros_like(tensor, at::TensorOptions().device(at::kCPU));
  return bytesOf(copy.host);
}

void HostCopies::uploadAll() {
  for (auto &[address, copy] : copies)
    copy.device.copy_(copy.host);
  isUploaded = true;
}

} // namespace fcdp
