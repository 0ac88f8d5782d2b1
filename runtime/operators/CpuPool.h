// SPDX-License-Identifier: Apache-2.0
//
// How operators on the CPU come to the pool.
#pragma once

#include <c10/core/Allocator.h>

namespace fcdp {

/// Replaces libtorch's CPU allocator in the whole process, once: a thread that
/// holds the scope of a pool on the CPU is served by that, all others as
/// before. Returns the allocator that was there. Thread-safe.
c10::Allocator &routeCpuAllocations();

} // namespace fcdp
