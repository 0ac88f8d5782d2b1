// SPDX-License-Identifier: Apache-2.0
//
// Routes allocations of operators on the CPU to the pool.
#pragma once

#include <c10/core/Allocator.h>

namespace fcdp {

/// Replaces libtorch's CPU allocator in the whole process, once. A thread with
/// the scope of a pool on the CPU allocates from that pool, all other threads
/// as before. Returns the previous allocator. Thread-safe.
c10::Allocator &routeCpuAllocations();

} // namespace fcdp
