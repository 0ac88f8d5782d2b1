// SPDX-License-Identifier: Apache-2.0
#include "policy/InputRules.h"

#include "plan/TorchTypes.h"
#include "policy/IntegerAccess.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <optional>

namespace fcdp {

namespace {

/// A fact about a value.
struct KnownValue {
  enum Kind { Input, IsOne, AllOne, Nan } kind;
  size_t input = 0;
};

class RuleFinder {
public:
  explicit RuleFinder(const StepPlan &plan)
      : plan(plan), rules(plan.inputs.size(), InputRule::None) {}

  std::vector<InputRule> find() {
    for (const auto &function : plan.functions) {
      facts.clear();
      for (uint64_t i = function->first; i < function->end; ++i)
        if (const auto *call = plan.ops[i]->body.Asaten_call())
          visit(*call);
    }
    return std::move(rules);
  }

private:
  void visit(const plan::AtenCallT &call) {
    std::optional<KnownValue> fact = factOf(call);
    for (int32_t slot : call.results)
      if (slot >= 0)
        facts.erase(slot);
    if (fact && call.results.size() == 1 && call.results[0] >= 0)
      facts[call.results[0]] = *fact;
  }

  std::optional<KnownValue> factOf(const plan::AtenCallT &call) {
    const std::string &name = call.callee;
    if (name == "aten::scalar_tensor")
      return isNumber(call, 0, NAN) ? std::optional(KnownValue{KnownValue::Nan})
                                    : std::nullopt;
    if (name == "aten::eq" && isNumber(call, 1, 1))
      return derive(call, KnownValue::Input, KnownValue::IsOne);
    if (name == "aten::all" && call.overload.empty())
      return derive(call, KnownValue::IsOne, KnownValue::AllOne);
    if (name == "aten::where")
      note(call);
    return std::nullopt;
  }

  /// Returns the fact that follows from the fact `from` about the first
  /// argument.
  std::optional<KnownValue> derive(const plan::AtenCallT &call,
                                   KnownValue::Kind from,
                                   KnownValue::Kind to) const {
    std::optional<KnownValue> given = fact(call, 0);
    if (!given || given->kind != from)
      return std::nullopt;
    return KnownValue{to, given->input};
  }

  void note(const plan::AtenCallT &call) {
    std::optional<KnownValue> condition = fact(call, 0),
                              otherwise = fact(call, 2);
    const bool isNan = (otherwise && otherwise->kind == KnownValue::Nan) ||
                       isNumber(call, 2, NAN);
    if (condition && isNan && condition->kind == KnownValue::AllOne)
      rules[condition->input] = InputRule::Ones;
  }

  /// Returns the fact about an argument that is one tensor.
  std::optional<KnownValue> fact(const plan::AtenCallT &call,
                                 size_t position) const {
    if (position >= call.args.size() ||
        call.args[position]->kind != plan::ArgumentKind::tensor ||
        call.args[position]->slots.size() != 1)
      return std::nullopt;
    const int32_t slot = call.args[position]->slots[0];
    if (slot < 0)
      return std::nullopt;
    if (plan.slots[slot]->kind == plan::SlotKind::input)
      return KnownValue{KnownValue::Input, *plan.slots[slot]->index};
    auto found = facts.find(slot);
    return found == facts.end() ? std::nullopt : std::optional(found->second);
  }

  static bool isNumber(const plan::AtenCallT &call, size_t position,
                       double expected) {
    if (position >= call.args.size())
      return false;
    const plan::ArgumentT &argument = *call.args[position];
    double value = 0;
    if (argument.kind == plan::ArgumentKind::integer)
      value = double(argument.integers.at(0));
    else if (argument.kind == plan::ArgumentKind::float_number)
      value = argument.floats.at(0);
    else
      return false;
    return value == expected || (std::isnan(value) && std::isnan(expected));
  }

  const StepPlan &plan;
  std::vector<InputRule> rules;
  /// By slot.
  std::map<int32_t, KnownValue> facts;
};

/// Returns element `position` of an input of any type.
double loadElement(const plan::InputT &input, std::span<const std::byte> data,
                   int64_t position) {
  const DType type = toDType(input.dtype);
  const at::ScalarType scalar = toScalarType(type);
  if (at::isIntegralType(scalar, /*includeBool=*/false))
    return double(loadInteger(data.data(), position, formOf(type)));
  auto *element =
      const_cast<std::byte *>(data.data() + position * byteSize(type));
  return at::from_blob(element, {}, scalar).item().toDouble();
}

std::string textOf(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%g", value);
  return text;
}

} // namespace

std::vector<InputRule> findInputRules(const StepPlan &plan) {
  return RuleFinder(plan).find();
}

std::string describeBrokenRule(InputRule rule, const plan::InputT &input,
                               const Shape &shape,
                               std::span<const std::byte> data) {
  const int64_t elements = numElements(shape);
  for (int64_t i = 0; rule != InputRule::None && i < elements; ++i) {
    const double value = loadElement(input, data, i);
    if (rule == InputRule::Ones && value != 1)
      return "element " + std::to_string(i) + " is " + textOf(value) +
             ", and the step was exported with full_masks, which says that all "
             "are 1: leave the mask out of full_masks, or pad with another "
             "value";
  }
  return "";
}

} // namespace fcdp
