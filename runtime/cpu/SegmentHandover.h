// SPDX-License-Identifier: Apache-2.0
//
// Passes a file descriptor from local rank 0 to the other ranks of a node over
// an abstract Unix socket. The socket has no name in the file system, so a
// killed rank leaves nothing behind.
#pragma once

#include "core/FileDescriptor.h"
#include "cpu/HostSegmentOptions.h"

#include <functional>

namespace fcdp {

/// Makes the memory. Returns its descriptor or throws std::runtime_error.
using MakeSegment = std::function<FileDescriptor()>;

/// For local rank 0: makes the memory and sends it to the local ranks 1, 2,
/// .... If `make` throws, they get its message.
FileDescriptor offerSegment(const HostSegmentOptions &options,
                            const MakeSegment &make);

/// For the other ranks: receives the memory from local rank 0.
FileDescriptor takeSegment(const HostSegmentOptions &options);

} // namespace fcdp
