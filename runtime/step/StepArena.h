// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "memory/Pool.h"
#include "operators/StepState.h"

namespace c10 {
struct DeviceAllocator;
}

namespace fcdp {

/// Returns the device arena of a step, for its pools. Only results of operators
/// ever have to move out of the arena. `cache` is libtorch's allocator of
/// device memory, or null on the CPU. Before an extension of the arena, the
/// unused memory of the cache is returned to the system: the recorded step has
/// allocated there the memory that the extension replaces. `state` and `cache`
/// must outlive the result.
PoolArena stepArena(StepState &state, c10::DeviceAllocator *cache);

} // namespace fcdp
