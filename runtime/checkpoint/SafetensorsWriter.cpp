// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/SafetensorsWriter.h"

#include "checkpoint/SafetensorsFormat.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace fcdp {

namespace {

/// Returns the header's text, padded with spaces to a multiple of eight bytes.
std::string makeHeader(const std::vector<SafetensorsWriter::Entry> &entries,
                       uint64_t &dataBytes) {
  nlohmann::ordered_json header;
  header["__metadata__"]["format"] = "pt";
  dataBytes = 0;
  for (const auto &entry : entries) {
    uint64_t end = dataBytes + numElements(entry.shape) * byteSize(entry.dtype);
    header[entry.names.front()] = {{"dtype", safetensorsName(entry.dtype)},
                                   {"shape", entry.shape},
                                   {"data_offsets", {dataBytes, end}}};
    for (size_t i = 1; i < entry.names.size(); ++i)
      header["__metadata__"][entry.names[i]] = entry.names.front();
    dataBytes = end;
  }
  std::string text = header.dump();
  constexpr size_t alignment = 8;
  text.append((alignment - text.size() % alignment) % alignment, ' ');
  return text;
}

} // namespace

SafetensorsWriter::SafetensorsWriter(const std::string &path,
                                     const std::vector<Entry> &entries)
    : path(path), temporary(path + ".tmp"),
      file(temporary, std::ios::binary | std::ios::trunc) {
  check("created");
  std::string header = makeHeader(entries, expected);
  uint64_t size = header.size();
  file.write(reinterpret_cast<const char *>(&size), sizeof(size));
  file.write(header.data(), header.size());
  check("written");
}

SafetensorsWriter::~SafetensorsWriter() {
  if (!isFinished)
    std::remove(temporary.c_str());
}

void SafetensorsWriter::check(const char *doing) const {
  if (!file)
    throw std::runtime_error(path + ": cannot be " + doing + ": " +
                             std::strerror(errno));
}

void SafetensorsWriter::write(std::span<const std::byte> bytes) {
  file.write(reinterpret_cast<const char *>(bytes.data()), bytes.size());
  check("written");
  written += bytes.size();
}

void SafetensorsWriter::finish() {
  if (written != expected)
    throw std::runtime_error(path + ": expected " + std::to_string(expected) +
                             " bytes of data, got " + std::to_string(written));
  file.close();
  check("written");
  if (std::rename(temporary.c_str(), path.c_str()) != 0)
    throw std::runtime_error(path + ": cannot be renamed from " + temporary +
                             ": " + std::strerror(errno));
  isFinished = true;
}

} // namespace fcdp
