// SPDX-License-Identifier: Apache-2.0
//
// Numbers of sections are those of PKWARE's APPNOTE.TXT 6.3.10.
#include "checkpoint/ZipFile.h"
#include "checkpoint/Checksum.h"

#include <cstring>
#include <stdexcept>

namespace fcdp {

namespace {

/// Bytes of a zip file, little-endian as this machine is.
struct Bytes : std::span<const std::byte> {
  /// Throws if they do not all lie in the file.
  Bytes part(uint64_t offset, uint64_t count) const {
    if (offset > size() || count > size() - offset)
      throw std::runtime_error("its directory points outside the file");
    return {subspan(offset, count)};
  }
  template <typename T>
  T number(uint64_t offset) const {
    T value;
    std::memcpy(&value, part(offset, sizeof(T)).data(), sizeof(T));
    return value;
  }
  std::string text() const {
    return {reinterpret_cast<const char *>(data()), size()};
  }
};

void expectSignature(Bytes bytes, uint32_t expected) {
  if (bytes.number<uint32_t>(0) != expected)
    throw std::runtime_error("its directory is damaged");
}

/// 4.3.16: the last of a file, in front of a comment of at most 64 KiB.
uint64_t findEnd(Bytes file) {
  constexpr uint64_t size = 22, longestComment = 65535;
  for (uint64_t comment = 0;
       comment <= longestComment && size + comment <= file.size(); ++comment) {
    uint64_t at = file.size() - size - comment;
    if (file.number<uint32_t>(at) == 0x06054b50 &&
        file.number<uint16_t>(at + 20) == comment)
      return at;
  }
  throw std::runtime_error("its directory is missing");
}

struct Directory {
  uint64_t count, offset;
};

/// 4.3.14 to 4.3.16: files above 4 GiB have a second end, which the 20 bytes in
/// front of the first point to.
Directory findDirectory(Bytes file) {
  uint64_t end = findEnd(file);
  Directory found{file.number<uint16_t>(end + 10),
                  file.number<uint32_t>(end + 16)};
  if (found.count != 0xffff && found.offset != 0xffffffff)
    return found;
  Bytes locator = file.part(end < 20 ? file.size() : end - 20, 20);
  expectSignature(locator, 0x07064b50);
  Bytes large = file.part(locator.number<uint64_t>(8), 56);
  expectSignature(large, 0x06064b50);
  return {large.number<uint64_t>(32), large.number<uint64_t>(48)};
}

/// 4.5.3: replaces each of `values` that is 0xffffffff by what the field of
/// large files says, in this order.
void readLarge(Bytes extra, std::initializer_list<uint64_t *> values) {
  uint64_t at = 0;
  while (at + 4 <= extra.size()) {
    auto kind = extra.number<uint16_t>(at);
    Bytes field = extra.part(at + 4, extra.number<uint16_t>(at + 2));
    at += 4 + field.size();
    if (kind != 1)
      continue;
    uint64_t position = 0;
    for (uint64_t *value : values)
      if (*value == 0xffffffff) {
        *value = field.number<uint64_t>(position);
        position += 8;
      }
  }
}

} // namespace

void ZipFile::fail(const std::string &message) const {
  throw std::runtime_error(filePath + ": " + message);
}

ZipFile::ZipFile(const std::string &path)
    : filePath(path), file(std::make_shared<const MappedFile>(path)) {
  try {
    readDirectory();
  } catch (const std::runtime_error &error) {
    fail(std::string("cannot be read as an archive: ") + error.what() +
         "; is the file truncated?");
  }
}

/// 4.3.12
void ZipFile::readDirectory() {
  Bytes all{file->bytes()};
  Directory directory = findDirectory(all);
  uint64_t at = directory.offset;
  for (uint64_t i = 0; i < directory.count; ++i) {
    Bytes fixed = all.part(at, 46);
    expectSignature(fixed, 0x02014b50);
    auto nameSize = fixed.number<uint16_t>(28);
    auto extraSize = fixed.number<uint16_t>(30);
    Entry entry;
    entry.isEncrypted = fixed.number<uint16_t>(8) & 1;
    entry.method = fixed.number<uint16_t>(10);
    entry.checksum = fixed.number<uint32_t>(16);
    entry.storedSize = fixed.number<uint32_t>(20);
    entry.size = fixed.number<uint32_t>(24);
    entry.header = fixed.number<uint32_t>(42);
    at += fixed.size();
    std::string name = all.part(at, nameSize).text();
    readLarge(all.part(at + nameSize, extraSize),
              {&entry.size, &entry.storedSize, &entry.header});
    entries.emplace(std::move(name), entry);
    at += nameSize + extraSize + fixed.number<uint16_t>(32);
  }
}

/// 4.3.7
std::span<const std::byte> ZipFile::contentOf(const Entry &entry) const {
  constexpr uint16_t stored = 0;
  if (entry.isEncrypted || entry.method != stored)
    throw std::runtime_error(
        "expected it stored as it is, got it " +
        std::string(entry.isEncrypted ? "encrypted" : "compressed") +
        "; pack the archive with 'zip -0'");
  Bytes all{file->bytes()};
  Bytes header = all.part(entry.header, 30);
  expectSignature(header, 0x04034b50);
  uint64_t start = entry.header + header.size() + header.number<uint16_t>(26) +
                   header.number<uint16_t>(28);
  if (entry.size != entry.storedSize)
    throw std::runtime_error("expected " + std::to_string(entry.size) +
                             " bytes, got " + std::to_string(entry.storedSize));
  Bytes content = all.part(start, entry.size);
  if (crc32(content) != entry.checksum)
    throw std::runtime_error("its checksum (CRC-32) is wrong: it is damaged");
  return content;
}

std::optional<std::string> ZipFile::findEnding(std::string_view ending) const {
  for (const auto &[name, entry] : entries)
    if (name.ends_with(ending))
      return name;
  return std::nullopt;
}

std::optional<std::span<const std::byte>>
ZipFile::read(const std::string &name) const {
  auto found = entries.find(name);
  if (found == entries.end())
    return std::nullopt;
  try {
    return contentOf(found->second);
  } catch (const std::runtime_error &error) {
    fail("entry '" + name + "': " + error.what());
  }
}

std::optional<std::string> ZipFile::readText(const std::string &name) const {
  auto bytes = read(name);
  if (!bytes)
    return std::nullopt;
  return Bytes{*bytes}.text();
}

} // namespace fcdp
