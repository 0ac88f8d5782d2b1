// SPDX-License-Identifier: Apache-2.0
//
// Handing a file descriptor from local rank 0 to the other ranks of a node,
// over an abstract Unix socket: it has no name in the file system, so a killed
// rank leaves nothing behind.
#pragma once

#include "cpu/FileDescriptor.h"
#include "cpu/HostSegment.h"

#include <functional>

namespace fcdp {

/// Makes the memory: returns its descriptor or throws std::runtime_error.
using MakeSegment = std::function<FileDescriptor()>;

/// On local rank 0: makes the memory and gives it to the local ranks 1, 2, ....
/// If `make` throws, they are told why.
FileDescriptor offerSegment(const HostSegmentOptions &options,
                            const MakeSegment &make);

/// On the others: takes what local rank 0 offers.
FileDescriptor takeSegment(const HostSegmentOptions &options);

} // namespace fcdp
