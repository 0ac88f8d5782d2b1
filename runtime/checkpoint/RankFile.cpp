// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/RankFile.h"

#include "files/ContentDigest.h"
#include "files/FileErrors.h"
#include "files/Json.h"
#include "weights/SafetensorsFormat.h"

#include <algorithm>

namespace fcdp {

namespace {

/// The key of the blocks' digests in the header's metadata.
constexpr const char *kDigests = "digests";

uint64_t dataBytesOf(const std::vector<SafetensorsWriter::Entry> &entries) {
  uint64_t bytes = 0;
  for (const SafetensorsWriter::Entry &entry : entries)
    bytes += uint64_t(numElements(entry.shape)) * byteSize(entry.dtype);
  return bytes;
}

} // namespace

uint64_t rankFileBytes(const std::vector<SafetensorsWriter::Entry> &entries) {
  // All digests have the same number of digits.
  const std::string digests(blockDigestDigits(dataBytesOf(entries)), '0');
  return SafetensorsWriter::fileBytes(entries, {{kDigests, digests}});
}

std::string writeRankFile(const std::string &path,
                          const std::vector<SafetensorsWriter::Entry> &entries,
                          std::span<const std::byte> data) {
  SafetensorsWriter writer(path, entries, {{kDigests, blockDigests(data)}});
  writer.write(data);
  writer.finish();
  return contentDigest(std::as_bytes(std::span(writer.header())));
}

RankFile::RankFile(const std::string &path,
                   const std::optional<std::string> &digest)
    : path(path), file(std::make_shared<MappedFile>(path)) {
  if (digest)
    checkHeader(*digest);
  source = openSafetensors(path, file);
}

/// Compares the header with its digest, and reads the blocks' digests from it.
void RankFile::checkHeader(const std::string &digest) {
  try {
    const std::span<const std::byte> bytes = file->bytes();
    const size_t headerBytes = safetensorsHeaderBytes(bytes);
    const std::span<const std::byte> header = bytes.first(headerBytes);
    const std::string found = contentDigest(header);
    if (found != digest)
      throw std::runtime_error(
          "expected a header with the digest " + digest +
          ", as the index says, got " + found +
          "; the file is damaged, or of another checkpoint");
    data = bytes.subspan(headerBytes);
    const nlohmann::json value = parseJson(
        {reinterpret_cast<const char *>(header.data()) + sizeof(uint64_t),
         headerBytes - sizeof(uint64_t)});
    const JsonNode node =
        JsonNode(value, "header").at("__metadata__").at(kDigests);
    digests = node.text();
    if (digests.size() != blockDigestDigits(data.size()))
      node.expected(std::to_string(blockDigestDigits(data.size())) +
                    " digits of digests");
  } catch (const std::exception &error) {
    file->requireWhole();
    throwAt(path, error.what());
  }
  isVerified.resize(digests.size() / kDigestDigits);
}

/// Compares the blocks that intersect a range with their digests.
void RankFile::verify(std::span<const std::byte> range) {
  if (range.empty() || digests.empty())
    return;
  const auto begin = uint64_t(range.data() - data.data());
  for (uint64_t block = begin / kDigestBlockBytes;
       block * kDigestBlockBytes < begin + range.size(); ++block) {
    if (isVerified[block])
      continue;
    const uint64_t at = block * kDigestBlockBytes;
    const std::string found = contentDigest(data.subspan(
        at, std::min<uint64_t>(kDigestBlockBytes, data.size() - at)));
    const std::string expected =
        digests.substr(block * kDigestDigits, kDigestDigits);
    if (found != expected) {
      file->requireWhole();
      throwAt(path, "expected data with the digest " + expected +
                        " from byte " + std::to_string(at) + " on, got " +
                        found +
                        "; the file is damaged: resume from another "
                        "checkpoint");
    }
    isVerified[block] = true;
  }
}

void RankFile::read(const std::string &name, int64_t length, DType dtype,
                    int64_t first, int64_t count, std::byte *target) {
  const StoredTensor tensor = requireTensor(*source, {name}, {length}, dtype);
  const size_t width = byteSize(dtype);
  verify(tensor.storage.subspan(size_t(first) * width, size_t(count) * width));
  copyElements(tensor, first, count, target);
}

} // namespace fcdp
