// SPDX-License-Identifier: Apache-2.0
#include "step/HostCopies.h"

#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros_like.h>

namespace fcdp {

std::span<std::byte> bytesOf(const at::Tensor &tensor) {
  return {static_cast<std::byte *>(tensor.mutable_data_ptr()), tensor.nbytes()};
}

const at::Tensor &HostCopies::greatestAt(size_t index) const {
  const void *address = state.inputs[index].const_data_ptr();
  const at::Tensor *greatest = &state.inputs[index];
  for (const at::Tensor &other : state.inputs)
    if (other.const_data_ptr() == address && other.numel() > greatest->numel())
      greatest = &other;
  return *greatest;
}

std::span<std::byte> HostCopies::input(size_t set, size_t index) {
  if (set >= inputs.size())
    inputs.resize(set + 1);
  const at::Tensor &device = state.inputs[index];
  PinnedInput &pinned = inputs[set][device.const_data_ptr()];
  if (!pinned.memory.defined())
    pinned.memory = at::empty_like(
        greatestAt(index),
        at::TensorOptions().device(at::kCPU).pinned_memory(true));
  pinned.index = index;
  pinned.host =
      pinned.memory.view(-1).narrow(0, 0, device.numel()).view(device.sizes());
  return bytesOf(pinned.host);
}

void HostCopies::uploadInputs(size_t set) {
  if (set >= inputs.size())
    return;
  for (const auto &[address, pinned] : inputs[set])
    state.inputs[pinned.index].copy_(pinned.host, /*non_blocking=*/true);
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
