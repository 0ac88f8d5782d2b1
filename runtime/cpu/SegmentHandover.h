// SPDX-License-Identifier: Apache-2.0
//
// Passes a file descriptor from local rank 0 to the other ranks of a node over
// an abstract Unix socket. The socket has no name in the file system, so a
// killed rank leaves no file.
#pragma once

#include "core/FileDescriptor.h"
#include "cpu/HostSegmentOptions.h"

#include <functional>

namespace fcdp {

/// Creates the memory. Returns its descriptor or throws std::runtime_error.
using MakeSegment = std::function<FileDescriptor()>;

/// Creates the memory and sends it to the local ranks 1, 2, .... Called by
/// local rank 0. If `make` throws, the other ranks get its message.
FileDescriptor offerSegment(const HostSegmentOptions &options,
                            const MakeSegment &make);

/// Receives the memory from local rank 0. Called by the other ranks.
FileDescriptor takeSegment(const HostSegmentOptions &options);

} // namespace fcdp
