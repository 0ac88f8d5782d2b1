// SPDX-License-Identifier: Apache-2.0
//
// Describes the arguments of an ATen call.

#include "PlanParts.h"

#include "PlanValues.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace fcdp;
using Kind = plan::ArgumentKind;

/// Appends the slot of an operand; -1 for none.
static LogicalResult addSlot(plan::ArgumentT &out, aten::CallOp op,
                             int64_t index, const SlotTable &slots) {
  int64_t slot = index < 0 ? -1 : slots.lookup(op.getOperand(index));
  if (index >= 0 && slot < 0)
    return op.emitOpError("operand ")
           << index << " of type " << op.getOperand(index).getType()
           << " has no slot";
  out.slots.push_back(slot);
  return success();
}

static LogicalResult fillList(plan::ArgumentT &out, aten::CallOp op,
                              ArrayAttr list) {
  auto isInteger = [](Attribute element) {
    return isa<IntegerAttr>(element) && !isa<BoolAttr>(element);
  };
  // An empty list is described as a list of integers.
  if (llvm::all_of(list, isInteger)) {
    out.kind = Kind::integers;
    for (auto element : list.getAsRange<IntegerAttr>())
      out.integers.push_back(element.getInt());
    return success();
  }
  if (llvm::all_of(list, llvm::IsaPred<BoolAttr>)) {
    out.kind = Kind::booleans;
    for (auto element : list.getAsRange<BoolAttr>())
      out.integers.push_back(element.getValue());
    return success();
  }
  out.kind = Kind::float_numbers;
  for (Attribute element : list) {
    if (auto number = dyn_cast<FloatAttr>(element))
      out.floats.push_back(number.getValueAsDouble());
    else if (isInteger(element))
      out.floats.push_back(cast<IntegerAttr>(element).getInt());
    else
      return op.emitOpError("unsupported list ")
             << list << "; expected booleans, integers or floats";
  }
  return success();
}

static LogicalResult fillArgument(plan::ArgumentT &out, aten::CallOp op,
                                  Attribute value, const SlotTable &slots) {
  auto set = [&](Kind kind, auto &field, auto fieldValue) {
    out.kind = kind;
    field = std::move(fieldValue);
    return success();
  };
  using Integers = std::vector<int64_t>;
  // `true` is an IntegerAttr too, so booleans come first.
  return llvm::TypeSwitch<Attribute, LogicalResult>(value)
      .Case([&](aten::OperandAttr operand) {
        out.kind = Kind::tensor;
        return addSlot(out, op, operand.getIndex(), slots);
      })
      .Case([&](aten::OperandListAttr operands) {
        out.kind = Kind::tensors;
        for (int64_t index : operands.getIndices())
          if (failed(addSlot(out, op, index, slots)))
            return failure();
        return success();
      })
      .Case([&](ArrayAttr list) { return fillList(out, op, list); })
      .Case([&](UnitAttr) { return success(); })
      .Case([&](BoolAttr boolean) {
        return set(Kind::boolean, out.integers, Integers{boolean.getValue()});
      })
      .Case([&](IntegerAttr integer) {
        return set(Kind::integer, out.integers, Integers{integer.getInt()});
      })
      .Case([&](FloatAttr number) {
        return set(Kind::float_number, out.floats,
                   std::vector{number.getValueAsDouble()});
      })
      .Case([&](StringAttr text) {
        return set(Kind::text, out.text, text.str());
      })
      .Case([&](TypeAttr type) {
        out.kind = Kind::dtype;
        return setDType(out.dtype.emplace(), type.getValue(), op);
      })
      .Case([&](aten::DeviceAttr device) {
        return set(Kind::device, out.text, device.getName().str());
      })
      .Case([&](aten::LayoutAttr layout) {
        StringRef name = aten::stringifyLayout(layout.getValue());
        return set(Kind::layout, out.layout,
                   findByName<plan::Layout>(name, plan::EnumNamesLayout()));
      })
      .Case([&](aten::MemoryFormatAttr format) {
        StringRef name = aten::stringifyMemoryFormat(format.getValue());
        return set(Kind::memory_format, out.memoryFormat,
                   findByName<plan::MemoryFormat>(
                       name, plan::EnumNamesMemoryFormat()));
      })
      .Default([&](Attribute other) {
        return op.emitOpError("argument '")
               << out.name << "' has the unsupported value " << other;
      });
}

LogicalResult fcdp::fillArguments(plan::AtenCallT &out, aten::CallOp op,
                                  const SlotTable &slots) {
  auto add = [&](StringRef name) -> plan::ArgumentT & {
    plan::ArgumentT &argument = append(out.args);
    argument.name = name.str();
    return argument;
  };
  for (auto [name, value] :
       llvm::zip(op.getArgNames().getAsRange<StringAttr>(), op.getArgs()))
    if (failed(fillArgument(add(name.getValue()), op, value, slots)))
      return failure();
  if (int64_t slot = slots.getOut(op); slot >= 0) {
    plan::ArgumentT &argument = add("out");
    argument.kind = Kind::tensor;
    argument.slots = {static_cast<int32_t>(slot)};
  }
  return success();
}
