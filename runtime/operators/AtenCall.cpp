// SPDX-License-Identifier: Apache-2.0
//
// Calls ATen operators through the dispatcher, boxed, and the runtime's own
// operators.
#include "operators/ArgConversion.h"
#include "operators/KernelCall.h"
#include "operators/OperatorRules.h"
#include "operators/OwnOperators.h"
#include "operators/PreparedOp.h"

#include <ATen/core/List.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <stdexcept>

namespace fcdp {

namespace {

/// The source of one argument of the schema at each call.
struct ArgumentSource {
  enum class Form { Constant, Tensor, OptionalTensor, List, OptionalList };
  Form form = Form::Constant;
  c10::IValue constant;
  size_t slot = 0;
  /// The lists are filled at each call and emptied after it, so that a call
  /// allocates no list.
  c10::List<at::Tensor> list;
  c10::List<std::optional<at::Tensor>> optionalList;
  std::vector<int64_t> slots;
};

bool isTensor(const c10::Type &type) {
  return type.kind() == c10::TypeKind::TensorType;
}

bool isOptionalTensor(const c10::Type &type) {
  return type.kind() == c10::TypeKind::OptionalType &&
         isTensor(*type.expectRef<c10::OptionalType>().getElementType());
}

/// Returns the type of a list's elements, or null.
const c10::Type *listElement(const c10::Type &type) {
  if (type.kind() != c10::TypeKind::ListType)
    return nullptr;
  return type.expectRef<c10::ListType>().getElementType().get();
}

std::string fullName(const plan::AtenCallT &call) {
  return call.callee + (call.overload.empty() ? "" : "." + call.overload);
}

c10::OperatorHandle findOperator(const plan::AtenCallT &call) {
  auto found =
      c10::Dispatcher::singleton().findSchema({call.callee, call.overload});
  if (!found)
    throw std::runtime_error(
        "this libtorch has no operator '" + fullName(call) +
        "'; use the libtorch of the PyTorch that exported the model");
  return *found;
}

/// Thread-compatible: used by the issuing thread only.
class AtenCall final : public PreparedOp {
public:
  explicit AtenCall(const plan::AtenCallT &call);
  void run(StepState &state) override;

private:
  void checkRules() const;
  void checkNames() const;
  void checkAliases() const;
  void checkReturns();
  ArgumentSource resolve(const c10::Argument &argument) const;
  ArgumentSource resolveList(const plan::ArgumentT &value,
                             const c10::Argument &argument) const;
  void push(ArgumentSource &source, StepState &state);
  void pushList(ArgumentSource &source, StepState &state);
  void pushOptionalList(ArgumentSource &source, StepState &state);
  void storeResults(StepState &state);
  void clearLists();

  const c10::FunctionSchema &schema() const {
    return own ? own->schema : op->schema();
  }

  const plan::AtenCallT &call;
  const OwnOperator *own;
  /// Libtorch's, unless it is the runtime's own.
  std::optional<c10::OperatorHandle> op;
  std::vector<ArgumentSource> sources;
  /// The schema returns one value per entry of call.results.
  bool returnsOneEach = true;
};

AtenCall::AtenCall(const plan::AtenCallT &call)
    : call(call), own(findOwnOperator(call.callee, call.overload)) {
  if (!own) {
    op = findOperator(call);
    checkRules();
  }
  checkNames();
  checkAliases();
  checkReturns();
  const auto &arguments = schema().arguments();
  sources.reserve(arguments.size());
  for (const c10::Argument &argument : arguments)
    sources.push_back(resolve(argument));
}

void AtenCall::checkRules() const {
  std::string refusal = refusalOf(call, op->schema());
  if (!refusal.empty())
    throw std::runtime_error("'" + fullName(call) + "' " + refusal);
}

void AtenCall::checkNames() const {
  const auto &arguments = schema().arguments();
  for (const auto &given : call.args) {
    bool known = std::any_of(
        arguments.begin(), arguments.end(),
        [&](const c10::Argument &a) { return a.name() == given->name; });
    if (!known)
      throw std::runtime_error("there is no argument '" + given->name +
                               "' in " + toString(schema()));
  }
}

void AtenCall::checkAliases() const {
  for (const c10::Argument &value : schema().returns())
    if (call.alias == plan::Alias::fresh && value.alias_info())
      throw std::runtime_error(
          "the compiler took the result for new memory, but in this libtorch "
          "it may be an argument's: " +
          toString(schema()) +
          "; compile with an fcdp-compile whose table "
          "of operators fits this libtorch");
}

void AtenCall::checkReturns() {
  const auto &returns = schema().returns();
  for (const c10::Argument &value : returns) {
    const c10::Type *element = listElement(*value.real_type());
    if (element && isTensor(*element))
      returnsOneEach = false;
  }
  if (!returnsOneEach)
    return;
  if (returns.size() != call.results.size())
    throw std::runtime_error("expected " + std::to_string(returns.size()) +
                             " results, got " +
                             std::to_string(call.results.size()));
  for (size_t i = 0; i < returns.size(); ++i)
    if (!isTensor(*returns[i].real_type()) && call.results[i] >= 0)
      throw std::runtime_error("result " + std::to_string(i) + " is of type " +
                               returns[i].real_type()->str() +
                               "; only tensors can be kept in a slot");
}

ArgumentSource AtenCall::resolve(const c10::Argument &argument) const {
  ArgumentSource source;
  auto given =
      std::find_if(call.args.begin(), call.args.end(),
                   [&](const auto &a) { return a->name == argument.name(); });
  if (given == call.args.end()) {
    if (!argument.default_value())
      throw std::runtime_error("the argument '" + argument.name() +
                               "' is missing, and it has no default");
    source.constant = *argument.default_value();
    return source;
  }
  const plan::ArgumentT &value = **given;
  if (value.kind == plan::ArgumentKind::tensors)
    return resolveList(value, argument);
  if (value.kind == plan::ArgumentKind::tensor) {
    const c10::Type &type = *argument.real_type();
    if (isTensor(type) || isOptionalTensor(type)) {
      source.form = isTensor(type) ? ArgumentSource::Form::Tensor
                                   : ArgumentSource::Form::OptionalTensor;
      source.slot = value.slots[0];
      return source;
    }
  }
  source.constant = toIValue(value, argument);
  return source;
}

ArgumentSource AtenCall::resolveList(const plan::ArgumentT &value,
                                     const c10::Argument &argument) const {
  ArgumentSource source;
  const c10::Type *type = argument.real_type().get();
  if (type->kind() == c10::TypeKind::OptionalType)
    type = type->expectRef<c10::OptionalType>().getElementType().get();
  const c10::Type *element = listElement(*type);
  source.slots.assign(value.slots.begin(), value.slots.end());
  if (element && isTensor(*element)) {
    if (std::count(value.slots.begin(), value.slots.end(), -1))
      throw std::runtime_error("argument '" + argument.name() +
                               "' expects Tensor[], the plan gives a "
                               "list with -1 in it");
    source.form = ArgumentSource::Form::List;
    source.list.resize(value.slots.size());
    return source;
  }
  if (element && isOptionalTensor(*element)) {
    source.form = ArgumentSource::Form::OptionalList;
    source.optionalList.resize(value.slots.size());
    return source;
  }
  throw std::runtime_error("argument '" + argument.name() + "' expects " +
                           argument.real_type()->str() + ", the plan gives " +
                           describe(value));
}

const at::Tensor &definedSlot(StepState &state, size_t slot) {
  const at::Tensor &tensor = state.slots[slot];
  if (!tensor.defined())
    throw std::runtime_error("slot " + std::to_string(slot) +
                             " holds no tensor");
  return tensor;
}

void AtenCall::push(ArgumentSource &source, StepState &state) {
  switch (source.form) {
  case ArgumentSource::Form::Constant:
    state.stack.push_back(source.constant);
    return;
  case ArgumentSource::Form::Tensor:
    state.stack.emplace_back(definedSlot(state, source.slot));
    return;
  case ArgumentSource::Form::OptionalTensor:
    if (state.slots[source.slot].defined())
      state.stack.emplace_back(state.slots[source.slot]);
    else
      state.stack.emplace_back();
    return;
  case ArgumentSource::Form::List:
    return pushList(source, state);
  case ArgumentSource::Form::OptionalList:
    return pushOptionalList(source, state);
  }
}

void AtenCall::pushList(ArgumentSource &source, StepState &state) {
  for (size_t i = 0; i < source.slots.size(); ++i)
    source.list.set(i, definedSlot(state, source.slots[i]));
  state.stack.emplace_back(source.list);
}

void AtenCall::pushOptionalList(ArgumentSource &source, StepState &state) {
  for (size_t i = 0; i < source.slots.size(); ++i)
    if (source.slots[i] >= 0)
      source.optionalList.set(i, definedSlot(state, source.slots[i]));
  state.stack.emplace_back(source.optionalList);
}

void AtenCall::clearLists() {
  for (ArgumentSource &source : sources) {
    for (size_t i = 0; i < source.list.size(); ++i)
      source.list.set(i, at::Tensor());
    for (size_t i = 0; i < source.optionalList.size(); ++i)
      source.optionalList.set(i, std::nullopt);
  }
}

void AtenCall::storeResults(StepState &state) {
  size_t next = 0;
  auto store = [&](at::Tensor tensor) {
    if (next < call.results.size() && call.results[next] >= 0)
      state.slots[call.results[next]] = std::move(tensor);
    ++next;
  };
  for (c10::IValue &value : state.stack) {
    if (value.isTensorList())
      for (const at::Tensor &tensor : value.toTensorVector())
        store(tensor);
    else
      store(value.isTensor() ? std::move(value).toTensor() : at::Tensor());
  }
  state.stack.clear();
  if (next != call.results.size())
    throw std::runtime_error("expected " + std::to_string(call.results.size()) +
                             " results, the operator returned " +
                             std::to_string(next));
}

void AtenCall::run(StepState &state) {
  state.stack.clear();
  for (ArgumentSource &source : sources)
    push(source, state);
  if (own)
    own->run(state.stack, state.backend);
  else
    op->callBoxed(state.stack);
  clearLists();
  storeResults(state);
  state.drop(call.free);
}

} // namespace

PreparedOpPtr prepare(const plan::AtenCallT &call, const char *,
                      StepState &state) {
  if (std::optional<size_t> kernel = state.plan.kernelOf(call))
    return prepareKernel(call, *kernel, state);
  return std::make_unique<AtenCall>(call);
}

/// An operator's entry has its name and the types of its operands.
std::optional<uint64_t> countBytes(const plan::AtenCallT &, const StepPlan &) {
  return {};
}

} // namespace fcdp
