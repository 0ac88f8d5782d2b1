// SPDX-License-Identifier: Apache-2.0
#include "step/StepArena.h"

#include <c10/core/CachingDeviceAllocator.h>

namespace fcdp {

PoolArena stepArena(StepState &state, c10::DeviceAllocator *cache) {
  auto extend = [&backend = state.backend, cache](uint64_t from, uint64_t to) {
    if (cache)
      cache->emptyCache();
    return backend.extendDevice(from, to);
  };
  return {state.backend.deviceBase(), state.plan.deviceBytes,
          state.plan.stateBytes, extend, state.device};
}

} // namespace fcdp
