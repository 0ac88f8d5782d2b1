// SPDX-License-Identifier: Apache-2.0
//
// Digests by which a reader of a checkpoint finds that a file is not as it was
// written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace fcdp {

/// The data of a rank's file has a digest for each block of so many bytes, the
/// last of which may be shorter. So a reader of a range looks at little more
/// than the range.
inline constexpr uint64_t kDigestBlockBytes = uint64_t(1) << 20;
/// The digits of a digest.
inline constexpr size_t kDigestDigits = 16;

/// Returns XXH3 of 64 bits in hexadecimal digits.
std::string contentDigest(std::span<const std::byte> content);

/// Returns the digests of the blocks of `data`, one behind the other.
std::string blockDigests(std::span<const std::byte> data);

/// Returns the number of digits that `blockDigests` returns for so many bytes.
size_t blockDigestDigits(uint64_t bytes);

} // namespace fcdp
