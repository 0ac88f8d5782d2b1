// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace fcdp {

/// Returns the bytes that this process can still allocate without being killed,
/// according to the system and its control groups; UINT64_MAX if they give no
/// limit.
uint64_t availableMemory();

/// Throws std::runtime_error, with `purpose` and both numbers, if `bytes`
/// exceeds the available memory. Linux overcommits memory and kills a process
/// later; this check fails while the error can still be reported.
void requireMemory(const std::string &purpose, uint64_t bytes);

} // namespace fcdp
