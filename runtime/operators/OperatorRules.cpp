// SPDX-License-Identifier: Apache-2.0
#include "operators/OperatorRules.h"

#include "core/TextArguments.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/jit_type.h>
#include <algorithm>

namespace fcdp {

namespace {

using c10::Argument;
using c10::TypeKind;

/// Returns the type of the values in a list or an optional, or the type itself.
const c10::Type &innermost(const c10::Type &type) {
  if (type.kind() == TypeKind::OptionalType)
    return innermost(*type.expectRef<c10::OptionalType>().getElementType());
  if (type.kind() == TypeKind::ListType)
    return innermost(*type.expectRef<c10::ListType>().getElementType());
  return type;
}

/// Returns whether values of the type are plain. A generator counts as plain,
/// since a plan has none and the step's own is used.
bool isPlain(const c10::Type &type) {
  switch (innermost(type).kind()) {
  case TypeKind::TensorType:
  case TypeKind::IntType:
  case TypeKind::SymIntType:
  case TypeKind::FloatType:
  case TypeKind::BoolType:
  case TypeKind::NumberType:
  case TypeKind::StringType:
  case TypeKind::ScalarTypeType:
  case TypeKind::LayoutType:
  case TypeKind::MemoryFormatType:
  case TypeKind::DeviceObjType:
    return true;
  case TypeKind::GeneratorType:
    return type.kind() == TypeKind::OptionalType;
  default:
    return false;
  }
}

bool isWritten(const Argument &argument) {
  return argument.alias_info() && argument.alias_info()->isWrite();
}

/// Returns whether an operator is a norm that changes its running statistics in
/// place, by a momentum. Its schema does not mark them.
bool writesSilently(const c10::FunctionSchema &schema) {
  for (const char *end : {"_functional", "_no_training", "_no_update"})
    if (schema.name().ends_with(end))
      return false;
  auto takes = [&](std::string_view name) {
    return schema.argumentIndexWithName(name).has_value();
  };
  return takes("running_mean") &&
         (takes("momentum") || takes("exponential_average_factor"));
}

OperatorRule ruleBesidesWrites(const c10::FunctionSchema &schema) {
  const auto &arguments = schema.arguments(), &returns = schema.returns();
  if (!schema.name().starts_with("aten::"))
    return OperatorRule::OtherLibrary;
  if (writesSilently(schema))
    return OperatorRule::WritesSilently;
  if (std::none_of(returns.begin(), returns.end(), [](const Argument &value) {
        return innermost(*value.real_type()).kind() == TypeKind::TensorType;
      }))
    return OperatorRule::NoTensor;
  for (const Argument &argument : arguments) {
    const c10::Type &type = *argument.real_type();
    if (!isPlain(type))
      return OperatorRule::Object;
    if (innermost(type).kind() == TypeKind::StringType &&
        !isChoice(argument.name()))
      return OperatorRule::Text;
  }
  return OperatorRule::Allowed;
}

const char *describe(OperatorRule rule) {
  switch (rule) {
  case OperatorRule::Allowed:
    return "";
  case OperatorRule::OtherLibrary:
    return "is none of ATen's operators, and may do anything";
  case OperatorRule::Writes:
  case OperatorRule::WritesSilently:
    return "changes its arguments";
  case OperatorRule::NoTensor:
    return "has no tensor among its results, so it is called for an effect";
  case OperatorRule::Text:
    return "takes a text that may name a file or something else outside the "
           "step";
  case OperatorRule::Object:
    return "takes an object that no step has";
  }
  return "";
}

} // namespace

OperatorRule ruleOf(const c10::FunctionSchema &schema) {
  const auto &arguments = schema.arguments();
  OperatorRule rule = ruleBesidesWrites(schema);
  bool writes = std::any_of(arguments.begin(), arguments.end(), isWritten);
  return rule == OperatorRule::Allowed && writes ? OperatorRule::Writes : rule;
}

std::string refusalOf(const plan::AtenCallT &call,
                      const c10::FunctionSchema &schema) {
  OperatorRule rule = ruleOf(schema);
  if (rule == OperatorRule::Writes && !call.functional.empty()) {
    const auto &arguments = schema.arguments();
    bool onlyOut = std::all_of(
        arguments.begin(), arguments.end(), [](const Argument &argument) {
          return !isWritten(argument) || argument.name() == "out";
        });
    auto functional = c10::Dispatcher::singleton().findSchema(
        {call.callee, call.functional == "default" ? "" : call.functional});
    if (onlyOut && functional)
      rule = ruleOf(functional->schema());
  }
  if (rule == OperatorRule::Allowed)
    return "";
  return std::string(describe(rule)) +
         ": a plan calls operators for their results alone";
}

} // namespace fcdp
