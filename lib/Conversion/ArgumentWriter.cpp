// SPDX-License-Identifier: Apache-2.0
//
// The arguments of an ATen call in the manifest.

#include "OpWriter.h"

#include "Writing.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace fcdp;

namespace {
/// Writes one ARG of docs/manifest.md, an object of one key that tells the
/// kind of the value.
class ArgumentWriter {
public:
  ArgumentWriter(aten::CallOp op, const SlotTable &slots,
                 llvm::json::OStream &json)
      : op(op), slots(slots), json(json) {}

  LogicalResult write(StringRef name, Attribute value);

private:
  LogicalResult writeOperand(unsigned index);
  LogicalResult writeOperands(ArrayRef<int64_t> indices);
  LogicalResult writeList(ArrayAttr list);
  FailureOr<int64_t> findSlot(int64_t index);

  aten::CallOp op;
  const SlotTable &slots;
  llvm::json::OStream &json;
};
} // namespace

FailureOr<int64_t> ArgumentWriter::findSlot(int64_t index) {
  Value operand = op.getOperand(index);
  int64_t slot = slots.lookup(operand);
  if (slot < 0)
    return op.emitOpError("operand ")
           << index << " of type " << operand.getType() << " has no slot";
  return slot;
}

LogicalResult ArgumentWriter::writeOperand(unsigned index) {
  FailureOr<int64_t> slot = findSlot(index);
  if (failed(slot))
    return failure();
  json.attribute("t", *slot);
  return success();
}

LogicalResult ArgumentWriter::writeOperands(ArrayRef<int64_t> indices) {
  SmallVector<int64_t> list;
  for (int64_t index : indices) {
    FailureOr<int64_t> slot = index < 0 ? -1 : findSlot(index);
    if (failed(slot))
      return failure();
    list.push_back(*slot);
  }
  json.attribute("ts", llvm::json::Array(list));
  return success();
}

LogicalResult ArgumentWriter::writeList(ArrayAttr list) {
  bool booleans = llvm::all_of(list, llvm::IsaPred<BoolAttr>);
  auto isInteger = [](Attribute element) {
    return isa<IntegerAttr>(element) && !isa<BoolAttr>(element);
  };
  bool integers = llvm::all_of(list, isInteger);
  bool numbers = llvm::all_of(list, [&](Attribute element) {
    return isInteger(element) || isa<FloatAttr>(element);
  });
  if (!numbers && !booleans)
    return op.emitOpError("unsupported list ")
           << list << "; expected booleans, integers or floats";
  // An empty list reads like one of integers.
  json.attributeArray(
      integers   ? "is"
      : booleans ? "bs"
                 : "fs",
      [&] {
        for (Attribute element : list) {
          if (auto boolean = dyn_cast<BoolAttr>(element))
            json.value(boolean.getValue());
          else if (auto integer = dyn_cast<IntegerAttr>(element))
            json.value(integer.getInt());
          else
            writeNumber(json, cast<FloatAttr>(element).getValueAsDouble());
        }
      });
  return success();
}

static LogicalResult unsupported(aten::CallOp op, StringRef name,
                                 Attribute value) {
  return op.emitOpError("argument '")
         << name << "' has the unsupported value " << value;
}

LogicalResult ArgumentWriter::write(StringRef name, Attribute value) {
  // `true` is an IntegerAttr too, so booleans come first.
  return llvm::TypeSwitch<Attribute, LogicalResult>(value)
      .Case([&](aten::OperandAttr operand) {
        return writeOperand(operand.getIndex());
      })
      .Case([&](aten::OperandListAttr operands) {
        return writeOperands(operands.getIndices());
      })
      .Case([&](ArrayAttr list) { return writeList(list); })
      .Case([&](TypeAttr type) {
        return writeDType(json, "dtype", type.getValue(), op);
      })
      .Case([&](FloatAttr number) {
        json.attributeBegin("f");
        writeNumber(json, number.getValueAsDouble());
        json.attributeEnd();
        return success();
      })
      .Default([&](Attribute other) {
        auto put = [&](StringRef kind, llvm::json::Value content) {
          json.attribute(kind, content);
          return success();
        };
        if (isa<UnitAttr>(other))
          return put("none", true);
        if (auto boolean = dyn_cast<BoolAttr>(other))
          return put("b", boolean.getValue());
        if (auto integer = dyn_cast<IntegerAttr>(other))
          return put("i", integer.getInt());
        if (auto text = dyn_cast<StringAttr>(other))
          return put("s", text.getValue());
        if (auto device = dyn_cast<aten::DeviceAttr>(other))
          return put("device", device.getName());
        if (auto layout = dyn_cast<aten::LayoutAttr>(other))
          return put("layout", aten::stringifyLayout(layout.getValue()));
        if (auto format = dyn_cast<aten::MemoryFormatAttr>(other))
          return put("memory_format",
                     aten::stringifyMemoryFormat(format.getValue()));
        return unsupported(op, name, other);
      });
}

LogicalResult fcdp::writeArguments(aten::CallOp op, const SlotTable &slots,
                                   llvm::json::OStream &json) {
  ArgumentWriter writer(op, slots, json);
  LogicalResult result = success();
  auto writeOne = [&](StringAttr name, Attribute value) {
    json.value(name.getValue());
    json.object([&] {
      if (failed(writer.write(name, value)))
        result = failure();
    });
  };
  json.attributeArray("args", [&] {
    for (auto [name, value] :
         llvm::zip(op.getArgNames().getAsRange<StringAttr>(), op.getArgs()))
      json.array([&, name = name, value = value] { writeOne(name, value); });
    if (int64_t out = slots.getOut(op); out >= 0)
      json.array([&] {
        json.value("out");
        json.object([&] { json.attribute("t", out); });
      });
  });
  return result;
}
