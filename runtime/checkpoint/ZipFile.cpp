// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/ZipFile.h"

#include <filesystem>
#include <stdexcept>
#include <zip.h>

namespace fcdp {

void ZipFile::Close::operator()(zip *archive) const { zip_discard(archive); }

void ZipFile::fail(const std::string &name, const std::string &message) const {
  throw std::runtime_error(filePath + ": entry '" + name + "': " + message);
}

ZipFile::ZipFile(const std::string &path) : filePath(path) {
  int code = 0;
  archive.reset(zip_open(path.c_str(), ZIP_RDONLY, &code));
  if (archive)
    return;
  zip_error_t error;
  zip_error_init_with_code(&error, code);
  std::string text = zip_error_strerror(&error);
  zip_error_fini(&error);
  throw std::runtime_error(path + ": cannot be read as an archive: " + text +
                           "; is the file truncated?");
}

std::vector<std::string> ZipFile::names() const {
  std::vector<std::string> names;
  zip_int64_t count = zip_get_num_entries(archive.get(), 0);
  for (zip_int64_t i = 0; i < count; ++i)
    if (const char *name = zip_get_name(archive.get(), i, 0))
      names.push_back(name);
  return names;
}

std::optional<std::vector<std::byte>>
ZipFile::read(const std::string &name) const {
  zip_stat_t stat;
  if (zip_stat(archive.get(), name.c_str(), 0, &stat) != 0)
    return std::nullopt;
  std::unique_ptr<zip_file_t, decltype(&zip_fclose)> file(
      zip_fopen_index(archive.get(), stat.index, 0), &zip_fclose);
  if (!file)
    fail(name, zip_strerror(archive.get()));
  // A damaged directory must not make us ask for more memory than there is.
  constexpr uint64_t mostCompression = 1032; // of deflate
  if (stat.size / mostCompression > std::filesystem::file_size(filePath))
    fail(name, "expected fewer than " + std::to_string(stat.size) +
                   " bytes in a file of this size; is it truncated?");
  // One byte more than there should be, so that the end, where the checksum
  // is compared, is reached.
  std::vector<std::byte> bytes(stat.size + 1);
  size_t total = 0;
  while (total < bytes.size()) {
    zip_int64_t got =
        zip_fread(file.get(), bytes.data() + total, bytes.size() - total);
    if (got < 0)
      fail(name, zip_file_strerror(file.get()));
    if (got == 0)
      break;
    total += got;
  }
  if (total != stat.size)
    fail(name, "expected " + std::to_string(stat.size) + " bytes, got " +
                   std::to_string(total));
  bytes.resize(total);
  return bytes;
}

std::optional<std::string> ZipFile::readText(const std::string &name) const {
  auto bytes = read(name);
  if (!bytes)
    return std::nullopt;
  return std::string(reinterpret_cast<const char *>(bytes->data()),
                     bytes->size());
}

} // namespace fcdp
