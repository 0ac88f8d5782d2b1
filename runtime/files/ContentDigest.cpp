// SPDX-License-Identifier: Apache-2.0
#include "files/ContentDigest.h"

#include "files/FileDigest.h"

#include <algorithm>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace fcdp {

std::string contentDigest(std::span<const std::byte> content) {
  return toDigits(XXH3_64bits(content.data(), content.size()));
}

std::string blockDigests(std::span<const std::byte> data) {
  std::string digests;
  digests.reserve(blockDigestDigits(data.size()));
  for (size_t at = 0; at < data.size(); at += kDigestBlockBytes)
    digests += contentDigest(data.subspan(
        at, std::min<size_t>(kDigestBlockBytes, data.size() - at)));
  return digests;
}

size_t blockDigestDigits(uint64_t bytes) {
  return (bytes + kDigestBlockBytes - 1) / kDigestBlockBytes * kDigestDigits;
}

} // namespace fcdp
