// SPDX-License-Identifier: Apache-2.0
//
// The checksum of zip files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace fcdp {

/// CRC-32 as ISO 3309 defines it (polynomial 0xedb88320, reflected).
uint32_t crc32(std::span<const std::byte> bytes);

} // namespace fcdp
