// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/SafetensorsFormat.h"

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

} // namespace fcdp
