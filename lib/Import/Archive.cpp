// SPDX-License-Identifier: Apache-2.0

#include "Archive.h"

#include "fcdp/Support/InputFile.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"

#include <zip.h>

using namespace llvm;
using namespace fcdp::pt2;

Error fcdp::pt2::makeError(const Twine &message) {
  return createStringError(inconvertibleErrorCode(), message);
}

void Archive::Close::operator()(::zip *archive) const { zip_discard(archive); }

/// Returns an error for bytes that libzip refuses.
static Error openError(StringRef start, StringRef detail) {
  if (!start.starts_with("PK\3\4"))
    return makeError("expected a zip archive");
  return makeError("the zip archive is truncated or damaged (" + detail + ")");
}

Expected<Archive> Archive::openFile(StringRef path) {
  if (Error error = checkInput(path))
    return std::move(error);
  uint64_t size;
  if (std::error_code error = sys::fs::file_size(path, size))
    return makeError(error.message());
  int code = 0;
  ::zip *handle = zip_open(path.str().c_str(), ZIP_RDONLY, &code);
  if (!handle) {
    zip_error_t error;
    zip_error_init_with_code(&error, code);
    scope_exit done([&] { zip_error_fini(&error); });
    auto start =
        MemoryBuffer::getFileSlice(path, std::min<uint64_t>(size, 4), 0);
    if (!start)
      return makeError(start.getError().message());
    return openError((*start)->getBuffer(), zip_error_strerror(&error));
  }
  return check(Archive(handle, size));
}

Expected<Archive> Archive::openBuffer(MemoryBufferRef bytes) {
  zip_error_t error;
  zip_error_init(&error);
  scope_exit done([&] { zip_error_fini(&error); });
  zip_source_t *source = zip_source_buffer_create(
      bytes.getBufferStart(), bytes.getBufferSize(), /*freep=*/0, &error);
  if (!source)
    return makeError(zip_error_strerror(&error));
  ::zip *handle = zip_open_from_source(source, ZIP_RDONLY, &error);
  if (!handle) {
    zip_source_free(source);
    return openError(bytes.getBuffer(), zip_error_strerror(&error));
  }
  return check(Archive(handle, bytes.getBufferSize()));
}

Expected<Archive> Archive::check(Archive archive) {
  // libzip accepts an empty file as an archive without entries.
  if (archive.bytes == 0)
    return openError("", "");
  constexpr StringLiteral kFormat = "archive_format";
  bool found = false;
  for (int64_t i = 0, e = zip_get_num_entries(archive.handle.get(), 0); i < e;
       ++i) {
    const char *entry = zip_get_name(archive.handle.get(), i, ZIP_FL_ENC_RAW);
    StringRef name = entry ? entry : "";
    if (name != kFormat && !name.ends_with("/archive_format"))
      continue;
    StringRef root = name.drop_back(kFormat.size());
    // Use the shallowest entry, because a model may contain a file of that
    // name.
    if (found && root.size() >= archive.root.size())
      continue;
    found = true;
    archive.root = root.str();
  }
  if (!found)
    return makeError(
        "expected a .pt2 archive: it has no entry 'archive_format'");
  auto expect = [&](StringRef name, StringRef value) -> Error {
    Expected<std::string> text = archive.read(name);
    if (!text)
      return text.takeError();
    StringRef got = StringRef(*text).trim();
    if (got != value)
      return makeError("expected '" + value + "' in the entry '" + name +
                       "', got '" + got.take_front(40) + "'");
    return Error::success();
  };
  if (Error error = expect(kFormat, "pt2"))
    return error;
  if (Error error = expect("byteorder", "little"))
    return error;
  return archive;
}

bool Archive::contains(StringRef name) const {
  return zip_name_locate(handle.get(), (root + name).str().c_str(),
                         ZIP_FL_ENC_RAW) >= 0;
}

Expected<std::string> Archive::read(StringRef name) const {
  int64_t index = zip_name_locate(handle.get(), (root + name).str().c_str(),
                                  ZIP_FL_ENC_RAW);
  if (index < 0)
    return makeError("the archive has no entry '" + name + "'");
  zip_stat_t stat;
  constexpr zip_uint64_t kNeeded =
      ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE | ZIP_STAT_COMP_METHOD;
  if (zip_stat_index(handle.get(), index, 0, &stat) != 0 ||
      (stat.valid & kNeeded) != kNeeded)
    return makeError("cannot read the entry '" + name +
                     "': " + zip_strerror(handle.get()));
  // PyTorch stores entries uncompressed, so an entry cannot be larger than the
  // file, whatever size it declares.
  if (stat.comp_method != ZIP_CM_STORE)
    return makeError("expected the entry '" + name +
                     "' to be stored, but it is compressed");
  if (stat.size > bytes || stat.comp_size != stat.size)
    return makeError("the entry '" + name + "' declares " + Twine(stat.size) +
                     " bytes, more than the archive has");
  zip_file_t *file = zip_fopen_index(handle.get(), index, 0);
  if (!file)
    return makeError("cannot read the entry '" + name +
                     "': " + zip_strerror(handle.get()));
  scope_exit done([&] { zip_fclose(file); });
  std::string content(stat.size, '\0');
  size_t have = 0;
  while (have < content.size()) {
    int64_t got = zip_fread(file, content.data() + have, content.size() - have);
    if (got < 0)
      return makeError("cannot read the entry '" + name +
                       "': " + zip_file_strerror(file));
    if (got == 0)
      return makeError("the entry '" + name + "' ends after " + Twine(have) +
                       " of " + Twine(content.size()) + " bytes");
    have += got;
  }
  // libzip compares checksums when it reaches the end of the entry.
  char beyond;
  if (zip_fread(file, &beyond, 1) < 0)
    return makeError("the entry '" + name +
                     "' is damaged: " + zip_file_strerror(file));
  return content;
}

std::vector<std::string> Archive::list(StringRef prefix) const {
  std::vector<std::string> names;
  for (int64_t i = 0, e = zip_get_num_entries(handle.get(), 0); i < e; ++i) {
    const char *entry = zip_get_name(handle.get(), i, ZIP_FL_ENC_RAW);
    StringRef name = entry ? entry : "";
    if (name.consume_front(root) && name.starts_with(prefix))
      names.push_back(name.str());
  }
  return names;
}

Expected<std::string> Archive::findModel() const {
  std::vector<std::string> models;
  for (std::string &name : list("models/"))
    if (StringRef(name).ends_with(".json"))
      models.push_back(std::move(name));
  if (models.empty())
    return makeError("the archive has no model ('models/NAME.json')");
  if (models.size() > 1)
    return makeError("expected one model, got " + Twine(models.size()) + ": '" +
                     join(models, "', '") + "'");
  return models.front();
}
