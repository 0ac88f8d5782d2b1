// SPDX-License-Identifier: Apache-2.0
#include "weights/SafetensorsFormat.h"

#include <cstring>
#include <stdexcept>
#include <string>

namespace fcdp {

const char *safetensorsName(DType type) {
  switch (type) {
  case DType::F16:
    return "F16";
  case DType::BF16:
    return "BF16";
  case DType::F32:
    return "F32";
  case DType::F64:
    return "F64";
  case DType::I8:
    return "I8";
  case DType::I16:
    return "I16";
  case DType::I32:
    return "I32";
  case DType::I64:
    return "I64";
  case DType::U8:
    return "U8";
  case DType::Bool:
    return "BOOL";
  case DType::C64:
    return "C64";
  case DType::C128:
    return "C128";
  }
  return "";
}

std::optional<DType> fromSafetensorsName(std::string_view name) {
  for (size_t type = 0; type < kNumDTypes; ++type)
    if (name == safetensorsName(DType(type)))
      return DType(type);
  return std::nullopt;
}

size_t safetensorsHeaderBytes(std::span<const std::byte> file) {
  uint64_t size = 0;
  if (file.size() >= sizeof(size))
    std::memcpy(&size, file.data(), sizeof(size));
  if (file.size() < sizeof(size) || size > kMostHeaderBytes ||
      size > file.size() - sizeof(size))
    throw std::runtime_error("expected a safetensors file whose header of " +
                             std::to_string(size) + " bytes is in it, got " +
                             std::to_string(file.size()) +
                             " bytes; is the file truncated?");
  return sizeof(size) + size;
}

} // namespace fcdp
