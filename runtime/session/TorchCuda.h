// SPDX-License-Identifier: Apache-2.0
//
// libtorch's part for CUDA, which only some builds of it have.
#pragma once

#include "core/GraphCapture.h"

#include <c10/core/CachingDeviceAllocator.h>
#include <string>

namespace fcdp {

/// Throws std::runtime_error that says what to do if this program's libtorch
/// cannot run operators on a GPU. `reason` begins the message.
void requireTorchForCuda(const std::string &reason);

/// Replaces libtorch's allocator of device memory in the whole process, once,
/// which must be before libtorch has used a GPU: a thread that holds the scope
/// of a pool on a GPU is served by that, all others by libtorch's own caching
/// allocator, which is returned. `devices` are those that the process sees.
/// Throws c10::Error.
c10::DeviceAllocator &routeCudaAllocations(int devices);

/// Returns `capture`, a capture of that stream, with memory of its own. Raw
/// allocations that kernels make during a capture are reserved as long as the
/// result lives, because each launch uses them again. `memory` is the result of
/// `routeCudaAllocations`.
std::unique_ptr<GraphCapture>
withOwnMemory(std::unique_ptr<GraphCapture> capture,
              c10::DeviceAllocator &memory, int device, void *stream);

} // namespace fcdp
