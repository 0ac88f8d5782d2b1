// SPDX-License-Identifier: Apache-2.0

#include "core/Backend.h"

namespace fcdp {

size_t byteSize(DType type) {
  switch (type) {
  case DType::I8:
  case DType::U8:
  case DType::Bool:
    return 1;
  case DType::F16:
  case DType::BF16:
  case DType::I16:
    return 2;
  case DType::F32:
  case DType::I32:
    return 4;
  case DType::F64:
  case DType::I64:
  case DType::C64:
    return 8;
  case DType::C128:
    return 16;
  }
  return 0;
}

const char *name(DType type) {
  switch (type) {
  case DType::F16:
    return "f16";
  case DType::BF16:
    return "bf16";
  case DType::F32:
    return "f32";
  case DType::F64:
    return "f64";
  case DType::I8:
    return "i8";
  case DType::I16:
    return "i16";
  case DType::I32:
    return "i32";
  case DType::I64:
    return "i64";
  case DType::U8:
    return "u8";
  case DType::Bool:
    return "bool";
  case DType::C64:
    return "c64";
  case DType::C128:
    return "c128";
  }
  return "?";
}

} // namespace fcdp
