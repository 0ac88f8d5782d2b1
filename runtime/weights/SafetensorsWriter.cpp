// SPDX-License-Identifier: Apache-2.0
#include "weights/SafetensorsWriter.h"

#include "files/FileErrors.h"
#include "weights/SafetensorsFormat.h"

#include <nlohmann/json.hpp>

namespace fcdp {

namespace {

/// Returns the header's text, padded with spaces to a multiple of eight bytes.
std::string makeHeader(const std::vector<SafetensorsWriter::Entry> &entries,
                       const SafetensorsWriter::Metadata &metadata,
                       uint64_t &dataBytes) {
  nlohmann::ordered_json header;
  header["__metadata__"]["format"] = "pt";
  for (const auto &[key, text] : metadata)
    header["__metadata__"][key] = text;
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
                                     const std::vector<Entry> &entries,
                                     const Metadata &metadata)
    : path(path), file(path) {
  std::string header = makeHeader(entries, metadata, expected);
  uint64_t size = header.size();
  start.assign(reinterpret_cast<const char *>(&size), sizeof(size));
  start += header;
  file.write(std::as_bytes(std::span(start)));
}

uint64_t SafetensorsWriter::fileBytes(const std::vector<Entry> &entries,
                                      const Metadata &metadata) {
  uint64_t dataBytes = 0;
  std::string header = makeHeader(entries, metadata, dataBytes);
  return sizeof(uint64_t) + header.size() + dataBytes;
}

void SafetensorsWriter::write(std::span<const std::byte> bytes) {
  file.write(bytes);
  written += bytes.size();
}

void SafetensorsWriter::finish() {
  if (written != expected)
    throwAt(path, "expected " + std::to_string(expected) +
                      " bytes of data, got " + std::to_string(written));
  file.finish();
}

} // namespace fcdp
