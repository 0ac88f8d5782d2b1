// SPDX-License-Identifier: Apache-2.0
//
// Tells files apart that should be the same on all nodes.
#pragma once

#include <cstdint>
#include <string>

namespace fcdp {

/// The largest file of which the digest covers all bytes.
inline constexpr uint64_t kMostWholeBytes = uint64_t(16) << 20;

/// Returns "131072 bytes, digest 0123456789abcdef". The digest covers all bytes
/// of a file of at most kMostWholeBytes. Of a larger one it covers the first
/// and the last 256 KiB, where formats have their headers and tables of
/// contents, and 64 blocks of 16 KiB at equal distances between. Of a folder it
/// covers the names and digests of the safetensors files, and of their index.
/// Throws std::runtime_error that names the file.
std::string digestOf(const std::string &path);

/// The digits of a checksum.
std::string toDigits(uint64_t checksum);

} // namespace fcdp
