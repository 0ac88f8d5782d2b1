// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/FileDigest.h"
#include "checkpoint/FileErrors.h"
#include "core/Checksum.h"
#include "core/FileDescriptor.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <vector>

namespace fcdp {
namespace {

constexpr uint64_t kEndBytes = uint64_t(256) << 10, kBlockBytes = 16 << 10,
                   kBlocks = 64;

/// Reads ranges of a file into a checksum.
class FileSampler {
public:
  explicit FileSampler(const std::string &path)
      : path(path),
        file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    struct stat status;
    if (!file || fstat(file.get(), &status) != 0)
      throwAt(path, std::string("cannot be read: ") + std::strerror(errno));
    bytes = uint64_t(status.st_size);
  }

  uint64_t size() const { return bytes; }
  void add(uint64_t begin, uint64_t count) {
    std::vector<std::byte> buffer(std::min(count, kEndBytes));
    for (uint64_t done = 0; done < count;) {
      const size_t wanted = std::min<uint64_t>(buffer.size(), count - done);
      ssize_t got =
          pread(file.get(), buffer.data(), wanted, off_t(begin + done));
      if (got < 0 && errno == EINTR)
        continue;
      if (got <= 0)
        throwAt(path,
                std::string("cannot be read: ") +
                    (got == 0 ? "it became shorter" : std::strerror(errno)));
      checksum.add(std::span(buffer).first(size_t(got)));
      done += uint64_t(got);
    }
  }
  uint64_t value() const { return checksum.value(); }

private:
  const std::string path;
  FileDescriptor file;
  uint64_t bytes = 0;
  Checksum checksum;
};

std::string digestOfFile(const std::string &path) {
  FileSampler sampler(path);
  const uint64_t size = sampler.size();
  if (size <= kMostWholeBytes) {
    sampler.add(0, size);
  } else {
    sampler.add(0, kEndBytes);
    const uint64_t between = size - 2 * kEndBytes - kBlockBytes;
    for (uint64_t block = 0; block < kBlocks; ++block)
      sampler.add(kEndBytes + between / kBlocks * block, kBlockBytes);
    sampler.add(size - kEndBytes, kEndBytes);
  }
  return std::to_string(size) + " bytes, digest " + toDigits(sampler.value());
}

bool isOfWeights(const std::string &name) {
  return name.ends_with(".safetensors") ||
         name.ends_with(".safetensors.index.json");
}

} // namespace

std::string toDigits(uint64_t checksum) {
  constexpr const char *digits = "0123456789abcdef";
  std::string text;
  for (int shift = 60; shift >= 0; shift -= 4)
    text += digits[(checksum >> shift) & 15];
  return text;
}

std::string digestOf(const std::string &path) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (!fs::is_directory(path, error))
    return digestOfFile(path);
  std::vector<std::string> names;
  for (const fs::directory_entry &entry : fs::directory_iterator(path, error))
    if (std::string name = entry.path().filename(); isOfWeights(name))
      names.push_back(name);
  std::sort(names.begin(), names.end());
  Checksum all;
  for (const std::string &name : names) {
    const std::string text = name + " " + digestOfFile(path + "/" + name);
    all.add(std::as_bytes(std::span(text)));
  }
  return std::to_string(names.size()) + " files, digest " +
         toDigits(all.value());
}

} // namespace fcdp
