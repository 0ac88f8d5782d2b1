// SPDX-License-Identifier: Apache-2.0
#include "output/EventFile.h"

#include <array>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <stdexcept>
#include <system_error>
#include <unistd.h>

namespace fcdp::run {

namespace {

/// Remainders of the bytes, for the reversed polynomial.
constexpr std::array<uint32_t, 256> kRemainders = [] {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < table.size(); ++byte) {
    table[byte] = byte;
    for (int bit = 0; bit < 8; ++bit)
      table[byte] = (table[byte] >> 1) ^ (table[byte] & 1 ? 0x82F63B78u : 0u);
  }
  return table;
}();

template <typename Number>
std::string littleEndian(Number number) {
  static_assert(std::endian::native == std::endian::little);
  std::string bytes(sizeof(number), '\0');
  std::memcpy(bytes.data(), &number, sizeof(number));
  return bytes;
}

/// Returns the checksum in the form in which a TFRecord stores it.
std::string maskedCrc(std::string_view bytes) {
  uint32_t crc = crc32c(bytes);
  return littleEndian<uint32_t>(((crc >> 15) | (crc << 17)) + 0xA282EAD8u);
}

// Fields of Protocol Buffers.

std::string varint(uint64_t number) {
  std::string bytes;
  for (; number >= 0x80; number >>= 7)
    bytes += char(number | 0x80);
  return bytes + char(number);
}

enum WireType { Varint = 0, Fixed64 = 1, Bytes = 2, Fixed32 = 5 };

std::string field(uint32_t number, WireType type, const std::string &value) {
  return varint(number << 3 | type) + value;
}

std::string bytesField(uint32_t number, const std::string &value) {
  return field(number, Bytes, varint(value.size()) + value);
}

// Messages of tensorflow/core/util/event.proto and
// tensorflow/core/framework/summary.proto.

std::string eventAt(int64_t step) {
  std::chrono::duration<double> now =
      std::chrono::system_clock::now().time_since_epoch();
  return field(/*wall_time*/ 1, Fixed64, littleEndian(now.count())) +
         field(/*step*/ 2, Varint, varint(uint64_t(step)));
}

std::string summaryOf(const Scalar &scalar) {
  return bytesField(
      /*value*/ 1,
      bytesField(/*tag*/ 1, scalar.first) +
          field(/*simple_value*/ 2, Fixed32, littleEndian(scalar.second)));
}

std::string hostName() {
  char name[256] = "";
  gethostname(name, sizeof(name) - 1);
  return name;
}

} // namespace

uint32_t crc32c(std::string_view bytes) {
  uint32_t crc = ~0u;
  for (char byte : bytes)
    crc = (crc >> 8) ^ kRemainders[(crc ^ uint8_t(byte)) & 0xFF];
  return ~crc;
}

EventFile::EventFile(const std::string &folder) : folder(folder) {
  if (folder.empty())
    return;
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    errno = error.value();
    fail(folder, "created");
  }
  if (access(folder.c_str(), W_OK | X_OK) != 0)
    fail(folder, "written to");
}

void EventFile::fail(const std::string &path, const std::string &doing) const {
  throw std::runtime_error("--tensorboard " + path + ": cannot be " + doing +
                           ": " + std::strerror(errno));
}

void EventFile::begin(int64_t lastStep) {
  if (folder.empty())
    return;
  // TensorBoard looks for "tfevents", and reads files in the order of names.
  auto now = std::chrono::duration_cast<std::chrono::microseconds>(
      std::chrono::system_clock::now().time_since_epoch());
  path = folder + "/events.out.tfevents." + std::to_string(now.count()) + "." +
         hostName() + "." + std::to_string(getpid());
  constexpr mode_t mode = 0666;
  FileDescriptor opened(open(
      path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, mode));
  if (!opened)
    fail(path, "created");
  file = AppendedFile(std::move(opened), "--tensorboard " + path);
  append(eventAt(0) + bytesField(/*file_version*/ 3, "brain.Event:2"));
  constexpr uint64_t start = 1; // SessionLog.SessionStatus.START
  append(eventAt(lastStep + 1) +
         bytesField(/*session_log*/ 7,
                    field(/*status*/ 1, Varint, varint(start))));
}

void EventFile::write(int64_t step, std::span<const Scalar> scalars) {
  if (!file)
    return;
  std::string summary;
  for (const Scalar &scalar : scalars)
    summary += summaryOf(scalar);
  append(eventAt(step) + bytesField(/*summary*/ 5, summary));
}

void EventFile::append(std::string_view event) {
  std::string length = littleEndian<uint64_t>(event.size());
  file.append(length + maskedCrc(length) + std::string(event) +
              maskedCrc(event));
}

} // namespace fcdp::run
