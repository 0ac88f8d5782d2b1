// SPDX-License-Identifier: Apache-2.0
//
// Reads and writes integers of any width in raw memory.
#pragma once

#include "core/Backend.h"

#include <cstring>
#include <limits>

namespace fcdp {

struct IntegerForm {
  size_t bytes;
  bool isSigned;
};

inline IntegerForm formOf(DType type) {
  return {byteSize(type), type != DType::U8};
}

template <typename T>
T loadAs(const std::byte *data, int64_t position) {
  T value;
  std::memcpy(&value, data + position * sizeof(T), sizeof(T));
  return value;
}

inline int64_t loadInteger(const std::byte *data, int64_t position,
                           IntegerForm form) {
  switch (form.bytes) {
  case 1:
    return form.isSigned ? loadAs<int8_t>(data, position)
                         : loadAs<uint8_t>(data, position);
  case 2:
    return form.isSigned ? loadAs<int16_t>(data, position)
                         : loadAs<uint16_t>(data, position);
  case 4:
    return loadAs<int32_t>(data, position);
  default:
    return loadAs<int64_t>(data, position);
  }
}

/// Writes the low bytes of `value` (little endian).
inline void storeInteger(std::byte *data, int64_t position, DType type,
                         int64_t value) {
  size_t bytes = byteSize(type);
  std::memcpy(data + position * bytes, &value, bytes);
}

inline bool fits(int64_t value, DType type) {
  if (type == DType::U8)
    return value >= 0 && value <= std::numeric_limits<uint8_t>::max();
  if (type == DType::I64)
    return true;
  int64_t greatest = (int64_t(1) << (8 * byteSize(type) - 1)) - 1;
  return value >= -greatest - 1 && value <= greatest;
}

} // namespace fcdp
