// SPDX-License-Identifier: Apache-2.0
//
// Files without a name, which end with the process.
#pragma once

#include "core/FileDescriptor.h"

#include <cstdint>
#include <string>

namespace fcdp {

/// Opens a new file in `folder` to read and write, with more flags of open.
/// Returns none on an error, and sets errno.
FileDescriptor openUnnamed(const std::string &folder, int flags);

/// Throws std::runtime_error if the file system is memory itself.
void refuseMemory(const FileDescriptor &file, const std::string &folder);

/// Allocates the first `bytes` of a file, for `purpose`. Throws
/// std::runtime_error that says how many bytes are free.
void allocateSpace(const FileDescriptor &file, const std::string &folder,
                   uint64_t bytes, const std::string &purpose);

} // namespace fcdp
