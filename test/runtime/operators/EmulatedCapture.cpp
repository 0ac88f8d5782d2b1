// SPDX-License-Identifier: Apache-2.0
#include "operators/EmulatedCapture.h"

#include "plan/TorchTypes.h"

namespace fcdp::test {

namespace {

thread_local EmulatedCapture *current = nullptr;

at::Tensor borrowIfAny(const at::Tensor &tensor) {
  return tensor.defined() ? borrow(tensor) : tensor;
}

/// Without a share in the memory.
c10::IValue borrowAll(const c10::IValue &value) {
  if (value.isTensor())
    return borrowIfAny(value.toTensor());
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor &tensor : value.toTensorVector())
      list.push_back(borrowIfAny(tensor));
    return list;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (std::optional<at::Tensor> tensor : value.toOptionalTensorList())
      list.push_back(tensor ? std::optional(borrowIfAny(*tensor))
                            : std::nullopt);
    return list;
  }
  return value;
}

/// Tensors among results, also in lists.
std::vector<at::Tensor> tensorsOf(const torch::jit::Stack &values) {
  std::vector<at::Tensor> tensors;
  for (const c10::IValue &value : values)
    if (value.isTensorList())
      for (const at::Tensor &tensor : value.toTensorVector())
        tensors.push_back(tensor);
    else if (value.isTensor())
      tensors.push_back(value.toTensor());
  return tensors;
}

torch::jit::Stack borrowAll(c10::ArrayRef<const c10::IValue> values) {
  torch::jit::Stack stack;
  for (const c10::IValue &value : values)
    stack.push_back(borrowAll(value));
  return stack;
}

} // namespace

class EmulatedCapture::Graph final : public ComputeGraph {
public:
  Graph(EmulatedCapture &owner, std::vector<Call> calls)
      : owner(owner), calls(std::move(calls)) {}

  void launch() override {
    ++owner.numLaunches;
    if (std::exchange(isFirst, false))
      return;
    ResultPool::Scope scope(owner.nobodys);
    for (const Call &call : calls)
      doAgain(call);
  }

private:
  static void doAgain(const Call &call) {
    torch::jit::Stack stack = call.arguments;
    c10::Dispatcher::singleton()
        .findSchemaOrThrow(call.name.name.c_str(),
                           call.name.overload_name.c_str())
        .callBoxed(stack);
    std::vector<at::Tensor> made = tensorsOf(stack),
                            kept = tensorsOf(call.results);
    for (size_t i = 0; i < made.size(); ++i)
      if (made[i].defined() && made[i].data_ptr() != kept[i].data_ptr())
        kept[i].copy_(made[i]);
  }

  EmulatedCapture &owner;
  std::vector<Call> calls;
  bool isFirst = true;
};

EmulatedCapture::~EmulatedCapture() { close(); }

std::unique_ptr<at::ObserverContext>
EmulatedCapture::beginCall(const at::RecordFunction &function) {
  if (current->depth++ > 0)
    return nullptr;
  auto name = function.operator_name();
  current->calls.push_back({*name, borrowAll(function.inputs()), {}});
  current->captured.push_back(name->name);
  return nullptr;
}

void EmulatedCapture::endCall(const at::RecordFunction &function,
                              at::ObserverContext *) {
  if (--current->depth == 0)
    current->calls.back().results = borrowAll(c10::ArrayRef<const c10::IValue>(
        function.outputs().data(), function.outputs().size()));
}

void EmulatedCapture::begin() {
  current = this;
  depth = 0;
  calls.clear();
  handle = at::addThreadLocalCallback(
      at::RecordFunctionCallback(&beginCall, &endCall)
          .needsInputs(true)
          .needsOutputs(true)
          .scopes({at::RecordScope::FUNCTION}));
}

void EmulatedCapture::close() {
  if (handle)
    at::removeCallback(*handle);
  handle.reset();
  current = nullptr;
}

std::unique_ptr<ComputeGraph> EmulatedCapture::end() {
  close();
  ++numGraphs;
  return std::make_unique<Graph>(*this, std::move(calls));
}

void EmulatedCapture::abandon() noexcept {
  close();
  ++numAbandoned;
}

} // namespace fcdp::test
