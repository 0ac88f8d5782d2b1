// SPDX-License-Identifier: Apache-2.0
#include "step/StepArena.h"

#include "plan/TorchTypes.h"

#include <c10/core/CachingDeviceAllocator.h>

namespace fcdp {

namespace {

/// Moves a storage; all tensors that share it see the new memory. Enqueues the
/// copy on the compute stream.
void moveStorage(c10::Storage storage, c10::DataPtr to) {
  auto bytes = int64_t(storage.nbytes());
  const c10::Device device = storage.device();
  tensorOver(to.get(), {bytes}, DType::U8, device)
      .copy_(tensorOver(storage.mutable_data(), {bytes}, DType::U8, device));
  storage.set_data_ptr_noswap(std::move(to));
}

void moveResults(StepState &state, std::span<const std::byte> bytes,
                 const PoolArena::Allocate &allocate) {
  for (const at::Tensor &tensor : state.slots) {
    if (!tensor.defined() || !tensor.has_storage())
      continue;
    auto *data = static_cast<const std::byte *>(tensor.storage().data());
    if (data >= bytes.data() && data < bytes.data() + bytes.size())
      moveStorage(tensor.storage(), allocate(tensor.storage().nbytes()));
  }
  // The stream of the next buffer in that memory may not wait for the copies.
  if (!state.device.is_cpu())
    state.backend.synchronize();
}

} // namespace

PoolArena stepArena(StepState &state, c10::DeviceAllocator *cache) {
  auto extend = [&backend = state.backend, cache](uint64_t from, uint64_t to) {
    if (cache)
      cache->emptyCache();
    return backend.extendDevice(from, to);
  };
  auto moveOut = [&state](std::span<const std::byte> bytes,
                          const PoolArena::Allocate &allocate) {
    moveResults(state, bytes, allocate);
  };
  return {state.backend.deviceBase(),
          state.plan.deviceBytes,
          state.plan.stateBytes,
          extend,
          moveOut,
          state.device};
}

} // namespace fcdp
