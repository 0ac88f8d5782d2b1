// SPDX-License-Identifier: Apache-2.0
//
// Parses and prints syntax that TableGen cannot express.

#include "dialects/Fcdp/Fcdp.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace fcdp;

/// Parses names of an enumeration in brackets. `expected` lists them for an
/// error.
template <typename EnumAttr, typename Enum>
static ParseResult parseNames(OpAsmParser &parser, ArrayAttr &attrs,
                              std::optional<Enum> (*symbolize)(StringRef),
                              StringRef expected) {
  SmallVector<Attribute> values;
  auto parseOne = [&]() -> ParseResult {
    SMLoc loc = parser.getCurrentLocation();
    StringRef name;
    if (parser.parseKeyword(&name))
      return failure();
    std::optional<Enum> value = symbolize(name);
    if (!value)
      return parser.emitError(loc, "expected ")
             << expected << ", got '" << name << "'";
    values.push_back(EnumAttr::get(parser.getContext(), *value));
    return success();
  };
  if (parser.parseCommaSeparatedList(OpAsmParser::Delimiter::Square, parseOne))
    return failure();
  attrs = parser.getBuilder().getArrayAttr(values);
  return success();
}

template <typename EnumAttr, typename Enum>
static void printNames(OpAsmPrinter &printer, ArrayAttr attrs,
                       StringRef (*stringify)(Enum)) {
  printer << '[';
  llvm::interleaveComma(
      attrs.getAsRange<EnumAttr>(), printer,
      [&](EnumAttr attr) { printer << stringify(attr.getValue()); });
  printer << ']';
}

/// Parses `[node, local]`.
static ParseResult parseAxes(OpAsmParser &parser, ArrayAttr &axes) {
  return parseNames<AxisAttr, Axis>(parser, axes, symbolizeAxis,
                                    "'node' or 'local'");
}

static void printAxes(OpAsmPrinter &printer, Operation *, ArrayAttr axes) {
  printNames<AxisAttr, Axis>(printer, axes, stringifyAxis);
}

/// Parses `[identity, row]`.
static ParseResult parseKernelMaps(OpAsmParser &parser, ArrayAttr &maps) {
  return parseNames<KernelMapAttr, KernelMap>(
      parser, maps, symbolizeKernelMap,
      "'identity', 'scalar', 'row' or 'column'");
}

static void printKernelMaps(OpAsmPrinter &printer, Operation *,
                            ArrayAttr maps) {
  printNames<KernelMapAttr, KernelMap>(printer, maps, stringifyKernelMap);
}

/// Parses `[@fc.weight at 0, @fc.bias at 32]`.
static ParseResult parseMembers(OpAsmParser &parser, ArrayAttr &members) {
  SmallVector<Attribute> values;
  auto parseOne = [&]() -> ParseResult {
    SMLoc loc = parser.getCurrentLocation();
    FlatSymbolRefAttr parameter;
    int64_t offset;
    if (parser.parseAttribute(parameter) || parser.parseKeyword("at") ||
        parser.parseInteger(offset))
      return failure();
    auto member =
        MemberAttr::getChecked([&] { return parser.emitError(loc); },
                               parser.getContext(), parameter, offset);
    values.push_back(member);
    return success(member != nullptr);
  };
  if (parser.parseCommaSeparatedList(OpAsmParser::Delimiter::Square, parseOne))
    return failure();
  members = parser.getBuilder().getArrayAttr(values);
  return success();
}

static void printMembers(OpAsmPrinter &printer, Operation *,
                         ArrayAttr members) {
  printer << '[';
  llvm::interleaveComma(
      members.getAsRange<MemberAttr>(), printer, [&](MemberAttr member) {
        printer << member.getParameter() << " at " << member.getOffset();
      });
  printer << ']';
}

/// Parses `(%g as @fc.weight)`.
static ParseResult
parsePackedValues(OpAsmParser &parser,
                  SmallVectorImpl<OpAsmParser::UnresolvedOperand> &values,
                  ArrayAttr &parameters) {
  SmallVector<Attribute> names;
  auto parseOne = [&]() -> ParseResult {
    FlatSymbolRefAttr name;
    if (parser.parseOperand(values.emplace_back()) ||
        parser.parseKeyword("as") || parser.parseAttribute(name))
      return failure();
    names.push_back(name);
    return success();
  };
  if (parser.parseCommaSeparatedList(OpAsmParser::Delimiter::Paren, parseOne))
    return failure();
  parameters = parser.getBuilder().getArrayAttr(names);
  return success();
}

static void printPackedValues(OpAsmPrinter &printer, Operation *,
                              OperandRange values, ArrayAttr parameters) {
  printer << '(';
  llvm::interleaveComma(llvm::zip(values, parameters), printer, [&](auto pair) {
    printer << std::get<0>(pair) << " as " << std::get<1>(pair);
  });
  printer << ')';
}

#define GET_OP_CLASSES
#include "dialects/Fcdp/FcdpOps.cpp.inc"
