// SPDX-License-Identifier: Apache-2.0

#include "ZipBytes.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/CRC.h"
#include "llvm/Support/Endian.h"

#include <zip.h>

using namespace llvm;
using namespace fcdp::fuzz;

std::vector<ZipEntry> fcdp::fuzz::unpack(StringRef bytes) {
  zip_error_t error;
  zip_error_init(&error);
  zip_source_t *source =
      zip_source_buffer_create(bytes.data(), bytes.size(), 0, &error);
  zip_t *archive = zip_open_from_source(source, ZIP_RDONLY, &error);
  if (!archive) {
    zip_source_free(source);
    return {};
  }
  std::vector<ZipEntry> entries;
  for (int64_t i = 0, e = zip_get_num_entries(archive, 0); i < e; ++i) {
    zip_stat_t stat;
    const char *name = zip_get_name(archive, i, ZIP_FL_ENC_RAW);
    if (!name || zip_stat_index(archive, i, 0, &stat) != 0 ||
        stat.comp_method != ZIP_CM_STORE || stat.size > bytes.size())
      continue;
    zip_file_t *file = zip_fopen_index(archive, i, 0);
    if (!file)
      continue;
    std::string content(stat.size, '\0');
    int64_t got = zip_fread(file, content.data(), content.size());
    zip_fclose(file);
    if (got != static_cast<int64_t>(content.size()))
      continue;
    entries.push_back({name, std::move(content)});
  }
  zip_discard(archive);
  return entries;
}

static void put16(std::string &out, uint16_t value) {
  char bytes[2];
  support::endian::write16le(bytes, value);
  out.append(bytes, sizeof(bytes));
}

static void put32(std::string &out, uint32_t value) {
  char bytes[4];
  support::endian::write32le(bytes, value);
  out.append(bytes, sizeof(bytes));
}

/// Appends the fields that the local header and the central directory have in
/// common (APPNOTE 4.3.7 and 4.3.12): from the version to the length of the
/// extra field.
static void putCommon(std::string &out, const ZipEntry &entry) {
  uint32_t checksum = crc32(arrayRefFromStringRef(entry.content));
  put16(out, 10);         // version needed
  put16(out, 0);          // flags
  put16(out, 0);          // stored
  put32(out, 0x21 << 16); // 1 January 1980
  put32(out, checksum);
  put32(out, entry.content.size());
  put32(out, entry.content.size());
  put16(out, entry.name.size());
  put16(out, 0);
}

std::string fcdp::fuzz::pack(const std::vector<ZipEntry> &entries) {
  std::string out, directory;
  for (const ZipEntry &entry : entries) {
    uint32_t offset = out.size();
    put32(out, 0x04034b50);
    putCommon(out, entry);
    out += entry.name;
    out += entry.content;

    put32(directory, 0x02014b50);
    put16(directory, 10); // made by
    putCommon(directory, entry);
    put16(directory, 0); // comment
    put16(directory, 0); // disk
    put16(directory, 0); // attributes
    put32(directory, 0);
    put32(directory, offset);
    directory += entry.name;
  }
  uint32_t start = out.size();
  out += directory;
  put32(out, 0x06054b50);
  put32(out, 0); // disks
  put16(out, entries.size());
  put16(out, entries.size());
  put32(out, directory.size());
  put32(out, start);
  put16(out, 0); // comment
  return out;
}
