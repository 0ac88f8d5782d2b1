// SPDX-License-Identifier: Apache-2.0
#include "files/FileDigest.h"
#include "core/Checksum.h"
#include "core/FileDescriptor.h"
#include "files/FileErrors.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <sys/stat.h>

namespace fcdp {
namespace {

constexpr uint64_t kEndBytes = uint64_t(256) << 10, kSampleBytes = 16 << 10,
                   kSamples = 64, kBlockBytes = 1 << 20;

[[noreturn]] void throwUnread(const std::string &path, const char *reason) {
  throwAt(path, std::string("cannot be read: ") + reason);
}

FileDescriptor openFile(const std::string &path) {
  FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file)
    throwUnread(path, std::strerror(errno));
  return file;
}

/// A range of bytes of one of the files.
struct Block {
  size_t file;
  uint64_t begin, count;
};

/// Adds the blocks of a whole file, each small enough to be read at once.
void addWhole(std::vector<Block> &blocks, size_t file, uint64_t bytes) {
  for (uint64_t at = 0; at < bytes; at += kBlockBytes)
    blocks.push_back({file, at, std::min(kBlockBytes, bytes - at)});
}

void addSamples(std::vector<Block> &blocks, size_t file, uint64_t bytes) {
  blocks.push_back({file, 0, kEndBytes});
  const uint64_t between = bytes - 2 * kEndBytes - kSampleBytes;
  for (uint64_t i = 0; i < kSamples; ++i)
    blocks.push_back({file, kEndBytes + between / kSamples * i, kSampleBytes});
  blocks.push_back({file, bytes - kEndBytes, kEndBytes});
}

void readBlock(const std::string &path, int file, const Block &block,
               std::span<std::byte> out) {
  for (uint64_t done = 0; done < block.count;) {
    ssize_t got = pread(file, out.data() + done, block.count - done,
                        off_t(block.begin + done));
    if (got < 0 && errno == EINTR)
      continue;
    if (got <= 0)
      throwUnread(path, got == 0 ? "it became shorter" : std::strerror(errno));
    done += uint64_t(got);
  }
}

/// Returns a checksum that differs for the same content at another place.
uint64_t checksumOf(const Block &block, std::span<const std::byte> content) {
  const uint64_t place[] = {block.file, block.begin};
  Checksum checksum;
  checksum.add(std::as_bytes(std::span(place)));
  checksum.add(content);
  return checksum.value();
}

bool isOfWeights(const std::string &name) {
  return name.ends_with(".safetensors") ||
         name.ends_with(".safetensors.index.json");
}

/// Returns an identifier that differs between machines, and between boots of
/// one.
std::string idOfSystem() {
  std::string id;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), id);
  return id;
}

std::string toText(const timespec &time) {
  return std::to_string(time.tv_sec) + "." + std::to_string(time.tv_nsec);
}

} // namespace

std::string toDigits(uint64_t checksum) {
  constexpr const char *digits = "0123456789abcdef";
  std::string text;
  for (int shift = 60; shift >= 0; shift -= 4)
    text += digits[(checksum >> shift) & 15];
  return text;
}

FileSet::FileSet(const std::string &path) : identityText(idOfSystem()) {
  namespace fs = std::filesystem;
  std::error_code error;
  isFolder = fs::is_directory(path, error);
  if (!isFolder) {
    add("", path);
    return;
  }
  std::vector<std::string> names;
  for (const fs::directory_entry &entry : fs::directory_iterator(path, error))
    if (std::string name = entry.path().filename(); isOfWeights(name))
      names.push_back(name);
  std::sort(names.begin(), names.end());
  for (const std::string &name : names)
    add(name, path + "/" + name);
}

FileSet::FileSet(const std::string &folder, std::vector<std::string> names)
    : isFolder(true), identityText(idOfSystem()) {
  for (const std::string &name : names)
    add(name, folder + "/" + name);
}

void FileSet::add(const std::string &name, const std::string &path) {
  struct stat status;
  if (fstat(openFile(path).get(), &status) != 0)
    throwUnread(path, std::strerror(errno));
  files.push_back({name, path, uint64_t(status.st_size)});
  identityText += " " + std::to_string(status.st_dev) + ":" +
                  std::to_string(status.st_ino) + ":" +
                  std::to_string(status.st_size) + ":" +
                  toText(status.st_mtim) + ":" + toText(status.st_ctim);
}

std::string FileSet::identity() const {
  Checksum checksum;
  checksum.add(std::as_bytes(std::span(identityText)));
  return toDigits(checksum.value());
}

uint64_t FileSet::totalBytes() const {
  uint64_t bytes = 0;
  for (const File &file : files)
    bytes += file.bytes;
  return bytes;
}

std::string FileSet::describe() const {
  const std::string bytes = std::to_string(totalBytes()) + " bytes";
  if (!isFolder)
    return bytes;
  return std::to_string(files.size()) +
         (files.size() == 1 ? " file, " : " files, ") + bytes;
}

uint64_t FileSet::sumOfPart(uint32_t part, uint32_t parts,
                            uint64_t mostBytes) const {
  const bool isWhole = totalBytes() <= mostBytes;
  std::vector<Block> blocks;
  Checksum names;
  for (size_t i = 0; i < files.size(); ++i) {
    const std::string text =
        files[i].name + " " + std::to_string(files[i].bytes);
    names.add(std::as_bytes(std::span(text)));
    if (isWhole || files[i].bytes <= kMostWholeBytes)
      addWhole(blocks, i, files[i].bytes);
    else
      addSamples(blocks, i, files[i].bytes);
  }
  // Each part gets neighbouring blocks, so that it reads its files in order.
  const size_t begin = blocks.size() * part / parts,
               end = blocks.size() * (part + 1) / parts;
  uint64_t sum = part == 0 ? names.value() : 0;
  std::vector<std::byte> buffer(begin == end ? 0 : kBlockBytes);
  FileDescriptor file;
  for (size_t i = begin; i < end; ++i) {
    const Block &block = blocks[i];
    const std::string &path = files[block.file].path;
    if (i == begin || block.file != blocks[i - 1].file)
      file = openFile(path);
    readBlock(path, file.get(), block, buffer);
    sum += checksumOf(block, std::span(buffer).first(block.count));
  }
  return sum;
}

} // namespace fcdp
