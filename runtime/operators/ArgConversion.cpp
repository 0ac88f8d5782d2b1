// SPDX-License-Identifier: Apache-2.0
#include "operators/ArgConversion.h"

#include "operators/TorchTypes.h"

#include <ATen/ScalarOps.h>
#include <ATen/core/jit_type.h>
#include <optional>
#include <stdexcept>

namespace fcdp {

namespace {

using c10::IValue;
using c10::TypeKind;
using Value = std::optional<IValue>;

template <typename T>
const T *get(const Arg &value) {
  return std::get_if<T>(&value);
}

/// What a bare number may stand for in a tensor's place: a tensor of no
/// dimensions that does not take part in type promotion, as Python makes it.
Value wrappedNumber(const Arg &value) {
  c10::Scalar scalar;
  if (auto *integer = get<int64_t>(value))
    scalar = *integer;
  else if (auto *number = get<double>(value))
    scalar = *number;
  else if (auto *flag = get<bool>(value))
    scalar = *flag;
  else
    return std::nullopt;
  at::Tensor tensor = c10::scalar_to_tensor(scalar);
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

Value toInteger(const Arg &value) {
  if (auto *integer = get<int64_t>(value))
    return *integer;
  if (auto *dtype = get<DType>(value))
    return static_cast<int64_t>(toScalarType(*dtype));
  return std::nullopt;
}

Value toFloat(const Arg &value) {
  if (auto *number = get<double>(value))
    return *number;
  if (auto *integer = get<int64_t>(value))
    return static_cast<double>(*integer);
  return std::nullopt;
}

Value toNumber(const Arg &value) {
  if (auto *number = get<double>(value))
    return *number;
  if (auto *integer = get<int64_t>(value))
    return *integer;
  if (auto *flag = get<bool>(value))
    return *flag;
  return std::nullopt;
}

Value toLayout(const Arg &value) {
  auto *layout = get<arg::Layout>(value);
  if (!layout || layout->name != "strided")
    return std::nullopt;
  return static_cast<int64_t>(c10::Layout::Strided);
}

Value toMemoryFormat(const Arg &value) {
  auto *format = get<arg::MemoryFormat>(value);
  if (!format)
    return std::nullopt;
  auto number = [](c10::MemoryFormat form) {
    return static_cast<int64_t>(form);
  };
  if (format->name == "contiguous")
    return number(c10::MemoryFormat::Contiguous);
  if (format->name == "preserve")
    return number(c10::MemoryFormat::Preserve);
  if (format->name == "channels_last")
    return number(c10::MemoryFormat::ChannelsLast);
  if (format->name == "channels_last_3d")
    return number(c10::MemoryFormat::ChannelsLast3d);
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

/// `count` copies of one number, for schemas such as "int[2] stride".
template <typename T>
c10::List<T> repeat(T item, std::optional<int32_t> count) {
  return copyList<T>(std::vector<T>(count.value_or(1), item));
}

Value toList(const Arg &value, const c10::Type &element,
             std::optional<int32_t> count) {
  auto *integers = get<std::vector<int64_t>>(value);
  switch (element.kind()) {
  case TypeKind::IntType:
  case TypeKind::SymIntType:
    if (integers)
      return copyList<int64_t>(*integers);
    if (auto *one = get<int64_t>(value); one && count)
      return repeat(*one, count);
    return std::nullopt;
  case TypeKind::FloatType:
    if (auto *numbers = get<std::vector<double>>(value))
      return copyList<double>(*numbers);
    if (integers)
      return copyList<double>(*integers);
    if (auto *one = get<double>(value); one && count)
      return repeat(*one, count);
    return std::nullopt;
  case TypeKind::BoolType:
    if (auto *flags = get<std::vector<bool>>(value))
      return copyList<bool>(*flags);
    if (auto *one = get<bool>(value); one && count)
      return repeat(*one, count);
    return std::nullopt;
  default:
    return std::nullopt;
  }
}

Value convert(const Arg &value, const c10::Type &type,
              std::optional<int32_t> count) {
  switch (type.kind()) {
  case TypeKind::OptionalType: {
    if (get<arg::None>(value))
      return IValue();
    const auto &optional = type.expectRef<c10::OptionalType>();
    return convert(value, *optional.getElementType(), count);
  }
  case TypeKind::TensorType:
    // Some operators take undefined tensors that their schema has not as
    // optional.
    if (get<arg::None>(value))
      return at::Tensor();
    return wrappedNumber(value);
  case TypeKind::IntType:
  case TypeKind::SymIntType:
    return toInteger(value);
  case TypeKind::ScalarTypeType:
    return get<DType>(value) ? toInteger(value) : std::nullopt;
  case TypeKind::FloatType:
    return toFloat(value);
  case TypeKind::NumberType:
    return toNumber(value);
  case TypeKind::BoolType:
    if (auto *flag = get<bool>(value))
      return *flag;
    return std::nullopt;
  case TypeKind::StringType:
    if (auto *text = get<std::string>(value))
      return *text;
    return std::nullopt;
  case TypeKind::DeviceObjType:
    if (auto *device = get<arg::Device>(value))
      return c10::Device(device->name);
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

const char *describe(const Arg &value) {
  struct Name {
    const char *operator()(const arg::None &) { return "none"; }
    const char *operator()(const arg::TensorSlot &) { return "a tensor"; }
    const char *operator()(const arg::TensorSlots &) {
      return "a list of tensors";
    }
    const char *operator()(int64_t) { return "an integer"; }
    const char *operator()(const std::vector<int64_t> &) {
      return "a list of integers";
    }
    const char *operator()(double) { return "a float"; }
    const char *operator()(const std::vector<double> &) {
      return "a list of floats";
    }
    const char *operator()(bool) { return "a bool"; }
    const char *operator()(const std::vector<bool> &) {
      return "a list of bools";
    }
    const char *operator()(const std::string &) { return "a string"; }
    const char *operator()(DType) { return "a dtype"; }
    const char *operator()(const arg::Device &) { return "a device"; }
    const char *operator()(const arg::Layout &) { return "a layout"; }
    const char *operator()(const arg::MemoryFormat &) {
      return "a memory format";
    }
  };
  return std::visit(Name(), value);
}

c10::IValue toIValue(const Arg &value, const c10::Argument &argument) {
  if (Value converted = convert(value, *argument.real_type(), argument.N()))
    return *converted;
  throw std::runtime_error("argument '" + argument.name() + "' expects " +
                           argument.real_type()->str() +
                           ", the manifest gives " + describe(value));
}

} // namespace fcdp
