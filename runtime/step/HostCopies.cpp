// SPDX-License-Identifier: Apache-2.0
#include "step/HostCopies.h"

#include <ATen/ops/empty_like.h>

namespace fcdp {

std::span<std::byte> bytesOf(const at::Tensor &tensor) {
  return {static_cast<std::byte *>(tensor.mutable_data_ptr()), tensor.nbytes()};
}

size_t HostCopies::greatestAt(size_t index) const {
  const std::vector<at::Tensor> &inputs = state.inputs;
  size_t greatest = index;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].const_data_ptr() == inputs[index].const_data_ptr() &&
        inputs[i].numel() > inputs[greatest].numel())
      greatest = i;
  return greatest;
}

void HostCopies::pin(PinnedInputs &inputs, size_t index) {
  const size_t owner = greatest[index];
  at::Tensor memory =
      at::empty_like(state.inputs[owner],
                     at::TensorOptions().device(at::kCPU).pinned_memory(true));
  for (size_t i = 0; i < greatest.size(); ++i)
    if (const at::Tensor &device = state.inputs[i]; greatest[i] == owner)
      inputs.host[i] =
          memory.view(-1).narrow(0, 0, device.numel()).view(device.sizes());
}

std::span<std::byte> HostCopies::input(size_t set, size_t index) {
  const size_t count = state.inputs.size();
  for (size_t i = greatest.size(); i < count; ++i)
    greatest.push_back(greatestAt(i));
  while (set >= sets.size())
    sets.push_back({std::vector<at::Tensor>(count),
                    std::vector<std::optional<size_t>>(count)});
  PinnedInputs &inputs = sets[set];
  if (!inputs.host[index].defined())
    pin(inputs, index);
  inputs.latest[greatest[index]] = index;
  return bytesOf(inputs.host[index]);
}

void HostCopies::uploadInputs(size_t set) {
  if (set >= sets.size())
    return;
  const PinnedInputs &inputs = sets[set];
  for (std::optional<size_t> latest : inputs.latest)
    if (latest)
      state.inputs[*latest].copy_(inputs.host[*latest], /*non_blocking=*/true);
}

std::span<std::byte> HostCopies::of(const at::Tensor &tensor) {
  Copy &copy = copies[tensor.const_data_ptr()];
  copy.device = tensor;
  // The caller may not overwrite all of it, because constants of the step are
  // there already.
  if (isUploaded || !copy.host.defined())
    copy.host = tensor.to(at::kCPU);
  return bytesOf(copy.host);
}

void HostCopies::uploadAll() {
  for (auto &[address, copy] : copies)
    copy.device.copy_(copy.host);
  isUploaded = true;
}

} // namespace fcdp
