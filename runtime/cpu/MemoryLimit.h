// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace fcdp {

/// Bytes this process can still take without being killed for it, as the
/// system and the control groups that it is in say; UINT64_MAX if they do not.
uint64_t availableMemory();

/// Throws std::runtime_error that names `purpose` and both numbers if `bytes`
/// are more than available. Linux hands out memory it does not have and kills
/// somebody later: this is an error while there is still somebody to read it.
void requireMemory(const std::string &purpose, uint64_t bytes);

} // namespace fcdp
