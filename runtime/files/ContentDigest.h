// SPDX-License-Identifier: Apache-2.0
//
// Digests by which the reader of a checkpoint detects that a file has changed
// since it was written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace fcdp {

/// The data of a rank's file has a digest for each block of this many bytes;
/// the last block may be shorter. So reading a range reads little more than the
/// range.
inline constexpr uint64_t kDigestBlockBytes = uint64_t(1) << 20;
/// The number of digits of a digest.
inline constexpr size_t kDigestDigits = 16;

/// Returns XXH3 of 64 bits in hexadecimal digits.
std::string contentDigest(std::span<const std::byte> content);

/// Returns the concatenated digests of the blocks of `data`.
std::string blockDigests(std::span<const std::byte> data);

/// Returns the number of digits that `blockDigests` returns for `bytes` bytes.
size_t blockDigestDigits(uint64_t bytes);

} // namespace fcdp
