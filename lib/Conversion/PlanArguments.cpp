// SPDX-License-Identifier: Apache-2.0
//
// The arguments of an ATen call.

#include "PlanOps.h"

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
  // An empty list reads like one of integers.
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
        out.kind = Kind::boolean;
        out.integers = {boolean.getValue()};
        return success();
      })
      .Case([&](IntegerAttr integer) {
        out.kind = Kind::integer;
        out.integers = {integer.getInt()};
        return success();
      })
      .Case([&](FloatAttr number) {
        out.kind = Kind::float_number;
        out.floats = {number.getValueAsDouble()};
        return success();
      })
      .Case([&](StringAttr text) {
        out.kind = Kind::text;
        out.text = text.str();
        return success();
      })
      .Case([&](TypeAttr type) {
        out.kind = Kind::dtype;
        return setDType(out.dtype.emplace(), type.getValue(), op);
      })
      .Case([&](aten::DeviceAttr device) {
        out.kind = Kind::device;
        out.text = device.getName().str();
        return success();
      })
      .Case([&](aten::LayoutAttr layout) {
        out.kind = Kind::layout;
        out.layout =
            findByName(aten::stringifyLayout(layout.getValue()),
                       plan::EnumValuesLayout(), plan::EnumNamesLayout());
        return success();
      })
      .Case([&](aten::MemoryFormatAttr format) {
        out.kind = Kind::memory_format;
        out.memoryFormat = findByName(
            aten::stringifyMemoryFormat(format.getValue()),
            plan::EnumValuesMemoryFormat(), plan::EnumNamesMemoryFormat());
        return success();
      })
      .Default([&](Attribute other) {
        return op.emitOpError("argument '")
               << out.name << "' has the unsupported value " << other;
      });
}

LogicalResult fcdp::fillArguments(plan::AtenCallT &out, aten::CallOp op,
                                  const SlotTable &slots) {
  auto add = [&](StringRef name) -> plan::ArgumentT & {
    auto &argument =
        *out.args.emplace_back(std::make_unique<plan::ArgumentT>());
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
