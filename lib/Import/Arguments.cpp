// SPDX-License-Identifier: Apache-2.0

#include "Arguments.h"

#include "Archive.h"
#include "Types.h"
#include "core/TextArguments.h"
#include "dialects/Aten/Aten.h"
#include "llvm/ADT/STLExtras.h"

#include <limits>

using namespace llvm;
using namespace mlir;
using namespace fcdp;
using namespace fcdp::pt2;

namespace {
/// Converts one Argument of the schema. Errors describe the problem; the caller
/// adds the argument's location.
class Converter {
public:
  Converter(const Values &values,
            const llvm::DenseMap<StringRef, int64_t> &integers,
            Builder &builder, CallArguments &arguments)
      : values(values), integers(integers), builder(builder),
        arguments(arguments) {}

  Expected<Attribute> convert(const Json &argument);

private:
  Expected<int64_t> useTensor(const Json &tensor);
  Expected<Attribute> convertTensors(const Json &list);
  Expected<Attribute> convertOptionalTensor(const Json &tensor);

  Expected<Attribute> convertInteger(const Json &value);
  Expected<Attribute> convertSymbolicInteger(const Json &value);
  Expected<Attribute> convertFloat(const Json &value);
  Expected<Attribute> convertBoolean(const Json &value);
  Expected<Attribute> convertString(const Json &value);
  Expected<Attribute> convertScalarType(const Json &value);
  Expected<Attribute> convertLayout(const Json &value);
  Expected<Attribute> convertMemoryFormat(const Json &value);
  Expected<Attribute> convertDevice(const Json &value);

  using Convert = Expected<Attribute> (Converter::*)(const Json &);
  Expected<Attribute> convertList(const Json &list, Convert element);

  const Values &values;
  const llvm::DenseMap<StringRef, int64_t> &integers;
  Builder &builder;
  CallArguments &arguments;
};
} // namespace

Expected<Attribute> Converter::convert(const Json &argument) {
  if (argument.members().size() != 1)
    return makeError("has no kind");
  auto [kind, value] = argument.members().front();
  if (kind == "as_tensor") {
    Expected<int64_t> index = useTensor(value);
    if (!index)
      return index.takeError();
    return aten::OperandAttr::get(builder.getContext(), *index);
  }
  if (kind == "as_none")
    return builder.getUnitAttr();
  if (kind == "as_tensors" || kind == "as_optional_tensors")
    return convertTensors(value);
  if (kind == "as_optional_tensor")
    return convertOptionalTensor(value);

  static const std::pair<StringRef, Convert> scalars[] = {
      {"as_int", &Converter::convertInteger},
      {"as_bool", &Converter::convertBoolean},
      {"as_float", &Converter::convertFloat},
      {"as_string", &Converter::convertString},
      {"as_sym_int", &Converter::convertSymbolicInteger},
      {"as_scalar_type", &Converter::convertScalarType},
      {"as_layout", &Converter::convertLayout},
      {"as_memory_format", &Converter::convertMemoryFormat},
      {"as_device", &Converter::convertDevice}};
  for (auto [name, convert] : scalars)
    if (kind == name)
      return (this->*convert)(value);
  static const std::pair<StringRef, Convert> lists[] = {
      {"as_ints", &Converter::convertInteger},
      {"as_sym_ints", &Converter::convertSymbolicInteger},
      {"as_bools", &Converter::convertBoolean},
      {"as_floats", &Converter::convertFloat},
      {"as_strings", &Converter::convertString}};
  for (auto [name, convert] : lists)
    if (kind == name)
      return convertList(value, convert);
  return makeError("has the unsupported kind '" + kind + "'");
}

/// Appends a tensor to the operands and returns its index.
Expected<int64_t> Converter::useTensor(const Json &tensor) {
  StringRef name = tensor["name"].asString().value_or("");
  Value value = values.lookup(name);
  if (!value)
    return makeError("uses '" + name + "', which is not defined before");
  arguments.operands.push_back(value);
  return arguments.operands.size() - 1;
}

Expected<Attribute> Converter::convertTensors(const Json &list) {
  if (!list.isArray())
    return makeError("is no list");
  // An empty list of tensors looks the same as any other empty list.
  if (list.elements().empty())
    return builder.getArrayAttr({});
  SmallVector<int64_t> indices;
  for (const Json &element : list.elements()) {
    if (!element["as_none"].isNull()) {
      indices.push_back(-1);
      continue;
    }
    // A list of optional tensors wraps each element; a list of tensors does
    // not.
    const Json &wrapped = element["as_tensor"];
    Expected<int64_t> index = useTensor(wrapped.isNull() ? element : wrapped);
    if (!index)
      return index.takeError();
    indices.push_back(*index);
  }
  return aten::OperandListAttr::get(builder.getContext(), indices);
}

Expected<Attribute> Converter::convertOptionalTensor(const Json &tensor) {
  if (!tensor["as_none"].isNull())
    return builder.getUnitAttr();
  Expected<int64_t> index = useTensor(tensor["as_tensor"]);
  if (!index)
    return index.takeError();
  return aten::OperandAttr::get(builder.getContext(), *index);
}

Expected<Attribute> Converter::convertList(const Json &list, Convert element) {
  if (!list.isArray())
    return makeError("is no list");
  SmallVector<Attribute> attributes;
  for (const Json &value : list.elements()) {
    Expected<Attribute> attribute = (this->*element)(value);
    if (!attribute)
      return attribute.takeError();
    attributes.push_back(*attribute);
  }
  return builder.getArrayAttr(attributes);
}

Expected<Attribute> Converter::convertInteger(const Json &value) {
  std::optional<int64_t> integer = value.asInteger();
  if (!integer)
    return makeError("is no integer of 64 bits");
  return builder.getI64IntegerAttr(*integer);
}

Expected<Attribute> Converter::convertSymbolicInteger(const Json &value) {
  if (const Json &name = value["as_name"]; !name.isNull()) {
    auto known = integers.find(name.asString().value_or(""));
    if (known != integers.end())
      return builder.getI64IntegerAttr(known->second);
    return makeError("uses the symbolic integer '" +
                     name.asString().value_or("") +
                     "': only static shapes are supported so far; export "
                     "without dynamic_shapes");
  }
  return convertInteger(value["as_int"]);
}

Expected<Attribute> Converter::convertFloat(const Json &value) {
  if (std::optional<double> number = value.asNumber())
    return builder.getF64FloatAttr(*number);
  StringRef text = value.asString().value_or("");
  using Limits = std::numeric_limits<double>;
  if (text == "Infinity")
    return builder.getF64FloatAttr(Limits::infinity());
  if (text == "-Infinity")
    return builder.getF64FloatAttr(-Limits::infinity());
  if (text == "NaN")
    return builder.getF64FloatAttr(Limits::quiet_NaN());
  return makeError("is no number");
}

Expected<Attribute> Converter::convertBoolean(const Json &value) {
  std::optional<bool> boolean = value.asBoolean();
  if (!boolean)
    return makeError("is no boolean");
  return builder.getBoolAttr(*boolean);
}

Expected<Attribute> Converter::convertString(const Json &value) {
  std::optional<StringRef> text = value.asString();
  if (!text)
    return makeError("is no string");
  return builder.getStringAttr(*text);
}

Expected<Attribute> Converter::convertScalarType(const Json &value) {
  int64_t number = value.asInteger().value_or(0);
  Type type = getElementType(number, builder.getContext());
  if (!type)
    return makeError("is the unknown data type " + Twine(number));
  return TypeAttr::get(type);
}

Expected<Attribute> Converter::convertLayout(const Json &value) {
  if (value.asInteger() != 7)
    return makeError("is a layout other than strided");
  return aten::LayoutAttr::get(builder.getContext(), aten::Layout::strided);
}

Expected<Attribute> Converter::convertMemoryFormat(const Json &value) {
  auto get = [&](aten::MemoryFormat format) {
    return aten::MemoryFormatAttr::get(builder.getContext(), format);
  };
  switch (value.asInteger().value_or(0)) {
  case 1:
    return get(aten::MemoryFormat::contiguous);
  case 2:
    return get(aten::MemoryFormat::channels_last);
  case 3:
    return get(aten::MemoryFormat::channels_last_3d);
  case 4:
    return get(aten::MemoryFormat::preserve);
  default:
    return makeError("is an unknown memory format");
  }
}

Expected<Attribute> Converter::convertDevice(const Json &value) {
  StringRef type = value["type"].asString().value_or("");
  if (type.empty())
    return makeError("is a device without a type");
  std::string name = type.str();
  if (std::optional<int64_t> index = value["index"].asInteger())
    name += ":" + std::to_string(*index);
  return aten::DeviceAttr::get(builder.getContext(), name);
}

static bool isText(const Json &arg) {
  return !arg["as_string"].isNull() || !arg["as_strings"].isNull();
}

Expected<CallArguments>
fcdp::pt2::convertArguments(const Node &node, const Values &values,
                            const llvm::DenseMap<StringRef, int64_t> &integers,
                            Builder &builder) {
  CallArguments arguments;
  Converter converter(values, integers, builder, arguments);
  for (const Json &input : node.inputs) {
    StringRef name = input["name"].asString().value_or("");
    if (name.empty())
      return makeError("node '" + node.name +
                       "' has an argument without a name");
    StringAttr nameAttr = builder.getStringAttr(name);
    if (is_contained(arguments.names, nameAttr))
      return makeError("argument '" + name + "' of node '" + node.name + "' (" +
                       node.target + ") is given twice");
    if (isText(input["arg"]) && !isChoice(name))
      return makeError("argument '" + name + "' of node '" + node.name + "' (" +
                       node.target +
                       ") is a text that may name a file or something else "
                       "outside the step: a step calls operators for their "
                       "results alone");
    Expected<Attribute> value = converter.convert(input["arg"]);
    if (!value)
      return makeError("argument '" + name + "' of node '" + node.name + "' (" +
                       node.target + ") " + toString(value.takeError()));
    arguments.names.push_back(nameAttr);
    arguments.values.push_back(*value);
  }
  return arguments;
}
