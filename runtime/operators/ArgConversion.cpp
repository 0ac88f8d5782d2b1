// SPDX-License-Identifier: Apache-2.0
#include "operators/ArgConversion.h"

#include "plan/TorchTypes.h"

#include <ATen/ScalarOps.h>
#include <ATen/core/jit_type.h>
#include <optional>
#include <stdexcept>

namespace fcdp {

namespace {

using c10::IValue;
using c10::TypeKind;
using Value = std::optional<IValue>;

using Kind = plan::ArgumentKind;

/// Returns the value of an argument that is one number, including a flag, or
/// nullopt.
std::optional<c10::Scalar> scalarOf(const plan::ArgumentT &value) {
  switch (value.kind) {
  case Kind::integer:
    return c10::Scalar(value.integers[0]);
  case Kind::float_number:
    return c10::Scalar(value.floats[0]);
  case Kind::boolean:
    return c10::Scalar(value.integers[0] != 0);
  default:
    return std::nullopt;
  }
}

/// Returns a number as a tensor argument: a tensor without dimensions that does
/// not take part in type promotion, as Python makes it.
Value wrappedNumber(const plan::ArgumentT &value) {
  std::optional<c10::Scalar> scalar = scalarOf(value);
  if (!scalar)
    return std::nullopt;
  at::Tensor tensor = c10::scalar_to_tensor(*scalar);
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

Value toInteger(const plan::ArgumentT &value) {
  if (value.kind == Kind::integer)
    return value.integers[0];
  if (value.kind == Kind::dtype)
    return static_cast<int64_t>(toScalarType(toDType(*value.dtype)));
  return std::nullopt;
}

Value toFloat(const plan::ArgumentT &value) {
  if (value.kind == Kind::float_number)
    return value.floats[0];
  if (value.kind == Kind::integer)
    return static_cast<double>(value.integers[0]);
  return std::nullopt;
}

Value toNumber(const plan::ArgumentT &value) {
  if (std::optional<c10::Scalar> scalar = scalarOf(value))
    return IValue(*scalar);
  return std::nullopt;
}

Value toLayout(const plan::ArgumentT &value) {
  if (value.kind != Kind::layout)
    return std::nullopt;
  return static_cast<int64_t>(c10::Layout::Strided);
}

Value toMemoryFormat(const plan::ArgumentT &value) {
  if (value.kind != Kind::memory_format)
    return std::nullopt;
  auto number = [](c10::MemoryFormat form) {
    return static_cast<int64_t>(form);
  };
  switch (*value.memoryFormat) {
  case plan::MemoryFormat::contiguous:
    return number(c10::MemoryFormat::Contiguous);
  case plan::MemoryFormat::preserve:
    return number(c10::MemoryFormat::Preserve);
  case plan::MemoryFormat::channels_last:
    return number(c10::MemoryFormat::ChannelsLast);
  case plan::MemoryFormat::channels_last_3d:
    return number(c10::MemoryFormat::ChannelsLast3d);
  }
  return std::nullopt;
}

template <typename To, typename From>
c10::List<To> copyList(const std::vector<From> &items) {
  c10::List<To> list;
  list.reserve(items.size());
  for (From item : items)
    list.push_back(static_cast<To>(item));
  return list;
}

/// Returns `count` copies of one number, for schemas such as "int[2] stride".
template <typename T>
c10::List<T> repeat(T item, std::optional<int32_t> count) {
  return copyList<T>(std::vector<T>(count.value_or(1), item));
}

Value toList(const plan::ArgumentT &value, const c10::Type &element,
             std::optional<int32_t> count) {
  switch (element.kind()) {
  case TypeKind::IntType:
  case TypeKind::SymIntType:
    if (value.kind == Kind::integers)
      return copyList<int64_t>(value.integers);
    if (value.kind == Kind::integer && count)
      return repeat(value.integers[0], count);
    return std::nullopt;
  case TypeKind::FloatType:
    if (value.kind == Kind::float_numbers)
      return copyList<double>(value.floats);
    if (value.kind == Kind::integers)
      return copyList<double>(value.integers);
    if (value.kind == Kind::float_number && count)
      return repeat(value.floats[0], count);
    return std::nullopt;
  case TypeKind::BoolType:
    if (value.kind == Kind::booleans)
      return copyList<bool>(value.integers);
    if (value.kind == Kind::boolean && count)
      return repeat(value.integers[0] != 0, count);
    return std::nullopt;
  default:
    return std::nullopt;
  }
}

Value convert(const plan::ArgumentT &value, const c10::Type &type,
              std::optional<int32_t> count) {
  switch (type.kind()) {
  case TypeKind::OptionalType: {
    if (value.kind == Kind::none)
      return IValue();
    const auto &optional = type.expectRef<c10::OptionalType>();
    return convert(value, *optional.getElementType(), count);
  }
  case TypeKind::TensorType:
    // Some operators accept undefined tensors that their schema does not mark
    // as optional.
    if (value.kind == Kind::none)
      return at::Tensor();
    return wrappedNumber(value);
  case TypeKind::IntType:
  case TypeKind::SymIntType:
    return toInteger(value);
  case TypeKind::ScalarTypeType:
    return value.kind == Kind::dtype ? toInteger(value) : std::nullopt;
  case TypeKind::FloatType:
    return toFloat(value);
  case TypeKind::NumberType:
    return toNumber(value);
  case TypeKind::BoolType:
    if (value.kind == Kind::boolean)
      return value.integers[0] != 0;
    return std::nullopt;
  case TypeKind::StringType:
    if (value.kind == Kind::text)
      return value.text;
    return std::nullopt;
  case TypeKind::DeviceObjType:
    if (value.kind == Kind::device)
      return c10::Device(value.text);
    return std::nullopt;
  case TypeKind::LayoutType:
    return toLayout(value);
  case TypeKind::MemoryFormatType:
    return toMemoryFormat(value);
  case TypeKind::ListType:
    return toList(value, *type.expectRef<c10::ListType>().getElementType(),
                  count);
  default:
    return std::nullopt;
  }
}

} // namespace

const char *describe(const plan::ArgumentT &value) {
  switch (value.kind) {
  case Kind::none:
    return "none";
  case Kind::tensor:
    return "a tensor";
  case Kind::tensors:
    return "a list of tensors";
  case Kind::integer:
    return "an integer";
  case Kind::integers:
    return "a list of integers";
  case Kind::boolean:
    return "a bool";
  case Kind::booleans:
    return "a list of bools";
  case Kind::float_number:
    return "a float";
  case Kind::float_numbers:
    return "a list of floats";
  case Kind::text:
    return "a string";
  case Kind::device:
    return "a device";
  case Kind::dtype:
    return "a dtype";
  case Kind::layout:
    return "a layout";
  case Kind::memory_format:
    return "a memory format";
  }
  return "nothing";
}

c10::IValue toIValue(const plan::ArgumentT &value,
                     const c10::Argument &argument) {
  if (Value converted = convert(value, *argument.real_type(), argument.N()))
    return *converted;
  throw std::runtime_error("argument '" + argument.name() + "' expects " +
                           argument.real_type()->str() + ", the plan gives " +
                           describe(value));
}

} // namespace fcdp
