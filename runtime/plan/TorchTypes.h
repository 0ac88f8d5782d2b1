// SPDX-License-Identifier: Apache-2.0
//
// Converts the plan's types and regions to libtorch's.
#pragma once

#include "core/Backend.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>
#include <string_view>

namespace fcdp {

inline at::ScalarType toScalarType(DType type) {
  switch (type) {
  case DType::F16:
    return at::kHalf;
  case DType::BF16:
    return at::kBFloat16;
  case DType::F32:
    return at::kFloat;
  case DType::F64:
    return at::kDouble;
  case DType::I8:
    return at::kChar;
  case DType::I16:
    return at::kShort;
  case DType::I32:
    return at::kInt;
  case DType::I64:
    return at::kLong;
  case DType::U8:
    return at::kByte;
  case DType::Bool:
    return at::kBool;
  case DType::C64:
    return at::kComplexFloat;
  case DType::C128:
    return at::kComplexDouble;
  }
  return at::ScalarType::Undefined;
}

/// Returns an error with text before and after its own. If its text begins with
/// `before` already, that is not added again. Errors of libtorch lose the part
/// that says where in libtorch they come from.
inline Failure wrapError(const std::string &before, const std::exception &error,
                         const std::string &after = "") {
  FailureKind kind = kindOf(error);
  if (dynamic_cast<const c10::OutOfMemoryError *>(&error))
    kind = FailureKind::OutOfMemory;
  auto *torchError = dynamic_cast<const c10::Error *>(&error);
  const char *text =
      torchError ? torchError->what_without_backtrace() : error.what();
  bool isThere = std::string_view(text).starts_with(before);
  return Failure((isThere ? "" : before) + text + after, kind);
}

/// Returns a contiguous tensor over memory of that device, which must outlive
/// it.
inline at::Tensor tensorOver(void *data, at::IntArrayRef shape, DType type,
                             at::Device device = at::kCPU) {
  // Because the device is given, libtorch does not query the driver for it.
  return at::for_blob(data, shape)
      .options(at::TensorOptions(toScalarType(type)).device(device))
      .target_device(device)
      .make_tensor();
}

/// Returns a tensor of the same bytes, which it does not own.
inline at::Tensor borrow(const at::Tensor &tensor) {
  const c10::Storage &owner = tensor.storage();
  c10::Storage storage(c10::Storage::use_byte_size_t(), owner.nbytes(),
                       c10::DataPtr(owner.mutable_data(), owner.device()),
                       /*allocator=*/nullptr, /*resizable=*/false);
  auto borrowed = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), tensor.key_set(), tensor.dtype());
  borrowed.unsafeGetTensorImpl()->set_sizes_and_strides(
      tensor.sizes(), tensor.strides(), tensor.storage_offset());
  return borrowed;
}

} // namespace fcdp
