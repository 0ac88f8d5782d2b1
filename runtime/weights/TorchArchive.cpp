// SPDX-License-Identifier: Apache-2.0
//
// Section numbers refer to PKWARE's APPNOTE.TXT 6.3.10.
#include "weights/TorchArchive.h"
#include "files/FileErrors.h"

#include <c10/util/Exception.h>
#include <caffe2/serialize/crc_alt.h>
#include <caffe2/serialize/inline_container.h>
#include <cstring>
#include <stdexcept>

namespace fcdp {

namespace {

/// Calls `read`. Its errors become errors that name the file and `what`.
template <typename Read>
auto naming(const std::string &path, const std::string &what, Read read) {
  try {
    return read();
  } catch (const c10::Error &error) {
    throwAt(path, what + ": " + error.what_without_backtrace());
  } catch (const std::exception &error) {
    throwAt(path, what + ": " + error.what());
  }
}

} // namespace

TorchArchive::TorchArchive(const std::string &path)
    : filePath(path), file(std::make_shared<const MappedFile>(path)) {
  reader = naming(path, "cannot be read as an archive", [&] {
    return std::make_unique<caffe2::serialize::PyTorchStreamReader>(path);
  });
}

TorchArchive::~TorchArchive() = default;

std::span<const std::byte> TorchArchive::part(uint64_t offset,
                                              uint64_t count) const {
  std::span<const std::byte> all = file->bytes();
  if (offset > all.size() || count > all.size() - offset)
    throw std::runtime_error("it lies outside the file");
  return all.subspan(offset, count);
}

/// Reads a little-endian number; this machine is little-endian too.
template <typename T>
T TorchArchive::number(uint64_t offset) const {
  T value;
  std::memcpy(&value, part(offset, sizeof(T)).data(), sizeof(T));
  return value;
}

/// Returns the checksum of a record. It is in the record's header or, if the
/// writer did not know it yet, after the content (sections 4.3.7 and 4.3.9).
/// PyTorch writes it after the content.
uint32_t TorchArchive::checksumOf(uint64_t header, uint64_t end) const {
  constexpr uint16_t behind = 1 << 3;
  if (!(number<uint16_t>(header + 6) & behind))
    return number<uint32_t>(header + 14);
  if (number<uint32_t>(end) != 0x08074b50)
    throw std::runtime_error("expected a checksum after it, got none");
  return number<uint32_t>(end + 4);
}

std::span<const std::byte> TorchArchive::contentOf(const std::string &name) {
  uint64_t header = reader->getRecordHeaderOffset(name);
  uint64_t start = reader->getRecordOffset(name);
  if (number<uint16_t>(header + 8) != 0)
    throw std::runtime_error("expected it stored as it is, got it compressed; "
                             "pack the archive with 'zip -0'");
  std::span<const std::byte> content = part(start, reader->getRecordSize(name));
  uint32_t found = crc32_fast(content.data(), content.size());
  uint32_t expected = checksumOf(header, start + content.size());
  file->requireWhole();
  if (found != expected)
    throw std::runtime_error("its checksum (CRC-32) is wrong: it is damaged");
  return content;
}

std::vector<std::string> TorchArchive::records() {
  return naming(filePath, "cannot be read as an archive",
                [&] { return reader->getAllRecords(); });
}

std::optional<std::span<const std::byte>>
TorchArchive::read(const std::string &name) {
  return naming(filePath, "entry '" + name + "'",
                [&]() -> std::optional<std::span<const std::byte>> {
                  if (!reader->hasRecord(name))
                    return std::nullopt;
                  return contentOf(name);
                });
}

std::optional<std::string> TorchArchive::readText(const std::string &name) {
  auto bytes = read(name);
  if (!bytes)
    return std::nullopt;
  return std::string(reinterpret_cast<const char *>(bytes->data()),
                     bytes->size());
}

} // namespace fcdp
