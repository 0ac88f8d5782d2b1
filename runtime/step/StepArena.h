// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "memory/Pool.h"
#include "operators/StepState.h"

namespace c10 {
struct DeviceAllocator;
}

namespace fcdp {

/// Returns the device arena of a step, for its pools. What has to move out of
/// the arena are results of operators. `cache` is libtorch's
/// allocator of device memory, or null on the CPU. An extension of the arena
/// first returns to the system what the cache does not use: the recorded step
/// has taken from it what the extension is for. `state` and `cache` must
/// outlive the result.
PoolArena stepArena(StepState &state, c10::DeviceAllocator *cache);

} // namespace fcdp
