// SPDX-License-Identifier: Apache-2.0
//
// Parses and prints the argument list of aten.call: `(self = %x, dim = [1],
// index = [none, %i])`.

#include "dialects/Aten/Aten.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace fcdp::aten;

namespace {
using UnresolvedOperand = OpAsmParser::UnresolvedOperand;

/// Parses arguments one by one and appends their operands to `operands`.
class ArgumentParser {
public:
  ArgumentParser(OpAsmParser &parser,
                 SmallVectorImpl<UnresolvedOperand> &operands)
      : parser(parser), operands(operands) {}

  ParseResult parse(Attribute &arg) {
    UnresolvedOperand operand;
    OptionalParseResult result = parser.parseOptionalOperand(operand);
    if (result.has_value()) {
      if (failed(*result))
        return failure();
      arg = OperandAttr::get(parser.getContext(), indexOf(operand));
      return success();
    }
    if (succeeded(parser.parseOptionalKeyword("none"))) {
      arg = UnitAttr::get(parser.getContext());
      return success();
    }
    if (succeeded(parser.parseOptionalLSquare()))
      return parseList(arg);
    return parseLiteral(arg);
  }

private:
  /// Returns the next index. Every occurrence of a value is a separate operand.
  unsigned indexOf(const UnresolvedOperand &operand) {
    operands.push_back(operand);
    return operands.size() - 1;
  }

  ParseResult parseLiteral(Attribute &arg) {
    return parser.parseAttribute(arg);
  }

  ParseResult parseList(Attribute &arg) {
    SmallVector<int64_t> tensors;
    SmallVector<Attribute> literals;
    auto parseElement = [&]() -> ParseResult {
      UnresolvedOperand operand;
      OptionalParseResult result = parser.parseOptionalOperand(operand);
      if (result.has_value()) {
        if (failed(*result))
          return failure();
        tensors.push_back(indexOf(operand));
        return success();
      }
      if (succeeded(parser.parseOptionalKeyword("none"))) {
        tensors.push_back(-1);
        return success();
      }
      return parseLiteral(literals.emplace_back());
    };
    SMLoc loc = parser.getCurrentLocation();
    if (failed(parser.parseOptionalRSquare()) &&
        (parser.parseCommaSeparatedList(parseElement) || parser.parseRSquare()))
      return failure();
    if (!tensors.empty() && !literals.empty())
      return parser.emitError(loc,
                              "a list holds tensors or literals, not both");
    if (!tensors.empty())
      arg = OperandListAttr::get(parser.getContext(), tensors);
    else
      arg = ArrayAttr::get(parser.getContext(), literals);
    return success();
  }

  OpAsmParser &parser;
  SmallVectorImpl<UnresolvedOperand> &operands;
};
} // namespace

static void printLiteral(OpAsmPrinter &printer, Attribute attr) {
  // Bare numbers parse to i64 and f64. A number that is not finite prints as
  // bits, which need their type.
  auto number = dyn_cast<FloatAttr>(attr);
  if (number && !number.getValue().isFinite()) {
    printer.printFloat(number.getValue());
    printer << " : " << number.getType();
  } else if (isa<IntegerAttr, FloatAttr>(attr))
    printer.printAttributeWithoutType(attr);
  else
    printer.printAttribute(attr);
}

namespace fcdp::aten {

static ParseResult
parseCallArguments(OpAsmParser &parser,
                   SmallVectorImpl<UnresolvedOperand> &operands,
                   ArrayAttr &argNames, ArrayAttr &args) {
  Builder &builder = parser.getBuilder();
  SmallVector<Attribute> names, values;
  ArgumentParser argument(parser, operands);
  auto parseOne = [&]() -> ParseResult {
    std::string name;
    if (parser.parseKeywordOrString(&name) || parser.parseEqual() ||
        argument.parse(values.emplace_back()))
      return failure();
    names.push_back(builder.getStringAttr(name));
    return success();
  };
  if (parser.parseCommaSeparatedList(OpAsmParser::Delimiter::Paren, parseOne))
    return failure();
  argNames = builder.getArrayAttr(names);
  args = builder.getArrayAttr(values);
  return success();
}

static void printCallArguments(OpAsmPrinter &printer, Operation *,
                               OperandRange operands, ArrayAttr argNames,
                               ArrayAttr args) {
  auto printArgument = [&](Attribute arg) {
    if (auto operand = dyn_cast<OperandAttr>(arg)) {
      printer << operands[operand.getIndex()];
    } else if (auto list = dyn_cast<OperandListAttr>(arg)) {
      printer << '[';
      llvm::interleaveComma(list.getIndices(), printer, [&](int64_t index) {
        if (index < 0)
          printer << "none";
        else
          printer << operands[index];
      });
      printer << ']';
    } else if (isa<UnitAttr>(arg)) {
      printer << "none";
    } else if (auto list = dyn_cast<ArrayAttr>(arg)) {
      printer << '[';
      llvm::interleaveComma(list, printer, [&](Attribute element) {
        printLiteral(printer, element);
      });
      printer << ']';
    } else {
      printLiteral(printer, arg);
    }
  };
  printer << '(';
  llvm::interleaveComma(llvm::zip(argNames, args), printer, [&](auto pair) {
    auto [name, arg] = pair;
    printer.printKeywordOrString(cast<StringAttr>(name).getValue());
    printer << " = ";
    printArgument(arg);
  });
  printer << ')';
}

} // namespace fcdp::aten

#define GET_OP_CLASSES
#include "dialects/Aten/AtenOps.cpp.inc"
