// SPDX-License-Identifier: Apache-2.0
#include "operators/KernelCall.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <algorithm>
#include <optional>
#include <stdexcept>
#include <string>

namespace fcdp {

namespace {

/// The least number of elements that a thread computes.
constexpr int64_t kElementGrain = 1 << 14;

/// Used by the issuing thread only.
class KernelCall final : public PreparedOp {
public:
  KernelCall(const plan::AtenCallT &call, const plan::KernelT &kernel,
             FcdpKernel function)
      : call(call), kernel(kernel), function(function) {
    memory.resize(kernel.operands.size() + kernel.results.size());
    results.resize(kernel.results.size());
    whole = findOperand(plan::KernelMap::identity).value();
    row = findOperand(plan::KernelMap::row);
    column = findOperand(plan::KernelMap::column);
  }
  void run(StepState &state) override;

private:
  /// Returns the first operand with that map.
  std::optional<size_t> findOperand(plan::KernelMap map) const;
  const at::Tensor &operand(StepState &state, size_t index) const;
  void checkSize(const at::Tensor &tensor, size_t index,
                 int64_t elements) const;
  void checkOperands(StepState &state);
  void compute();

  const plan::AtenCallT &call;
  const plan::KernelT &kernel;
  const FcdpKernel function;
  /// The memory of operands and results.
  std::vector<void *> memory;
  /// Undefined between calls.
  std::vector<at::Tensor> results;
  size_t whole = 0;
  std::optional<size_t> row, column;
  int64_t elements = 0, rows = 0, width = 0;
};

std::optional<size_t> KernelCall::findOperand(plan::KernelMap map) const {
  auto found = std::find(kernel.maps.begin(), kernel.maps.end(), map);
  if (found == kernel.maps.end())
    return std::nullopt;
  return size_t(found - kernel.maps.begin());
}

const at::Tensor &KernelCall::operand(StepState &state, size_t index) const {
  const at::Tensor &tensor = state.slots[call.args[0]->slots[index]];
  at::ScalarType type = toScalarType(toDType(kernel.operands[index]));
  if (!tensor.defined() || !tensor.is_cpu() || tensor.scalar_type() != type ||
      !tensor.is_contiguous())
    throw std::runtime_error(
        "expected operand " + std::to_string(index) + " of the kernel '" +
        kernel.name + "' to be a contiguous tensor of " +
        std::string(c10::toString(type)) + ", got " +
        (tensor.defined() ? std::string(tensor.toString()) + " of strides " +
                                toString(tensor.strides().vec())
                          : "none") +
        "; compile the step with --fuse=off");
  return tensor;
}

void KernelCall::checkSize(const at::Tensor &tensor, size_t index,
                           int64_t expected) const {
  if (tensor.numel() != expected)
    throw std::runtime_error("expected operand " + std::to_string(index) +
                             " of the kernel '" + kernel.name + "' to have " +
                             std::to_string(expected) + " elements, got " +
                             std::to_string(tensor.numel()));
}

/// Checks the operands' numbers of elements, and finds their rows.
void KernelCall::checkOperands(StepState &state) {
  elements = operand(state, whole).numel();
  width = row ? operand(state, *row).numel() : -1;
  rows = column ? operand(state, *column).numel() : -1;
  if (width < 0 && rows >= 0)
    width = rows == 0 ? 0 : elements / rows;
  if (rows < 0 && width >= 0)
    rows = width == 0 ? 0 : elements / width;
  if (rows >= 0 && rows * width != elements)
    throw std::runtime_error("expected rows of the kernel '" + kernel.name +
                             "' that have " + std::to_string(elements) +
                             " elements, got " + std::to_string(rows) +
                             " rows of " + std::to_string(width));
  for (size_t i = 0; i < kernel.operands.size(); ++i) {
    const at::Tensor &tensor = operand(state, i);
    switch (kernel.maps[i]) {
    case plan::KernelMap::identity:
      checkSize(tensor, i, elements);
      break;
    case plan::KernelMap::scalar:
      checkSize(tensor, i, 1);
      break;
    case plan::KernelMap::row:
      checkSize(tensor, i, width);
      break;
    case plan::KernelMap::column:
      checkSize(tensor, i, rows);
      break;
    }
    memory[i] = const_cast<void *>(tensor.const_data_ptr());
  }
}

void KernelCall::compute() {
  // Bits do not depend on the parts, which other threads compute.
  if (rows < 0)
    return at::parallel_for(0, elements, kElementGrain,
                            [&](int64_t begin, int64_t end) {
                              function(memory.data(), begin, end, /*width=*/0);
                            });
  const int64_t grain =
      std::max<int64_t>(1, kElementGrain / std::max<int64_t>(1, width));
  at::parallel_for(0, rows, grain, [&](int64_t begin, int64_t end) {
    function(memory.data(), begin, end, width);
  });
}

void KernelCall::run(StepState &state) {
  checkOperands(state);
  const at::IntArrayRef shape = operand(state, whole).sizes();
  for (size_t i = 0; i < kernel.results.size(); ++i) {
    results[i] = at::empty(shape, toScalarType(toDType(kernel.results[i])));
    memory[kernel.operands.size() + i] = results[i].mutable_data_ptr();
  }
  compute();
  for (size_t i = 0; i < results.size(); ++i) {
    at::Tensor result = std::move(results[i]);
    if (call.results[i] >= 0)
      state.slots[call.results[i]] = std::move(result);
  }
  state.drop(call.free);
}

} // namespace

PreparedOpPtr prepareKernel(const plan::AtenCallT &call, size_t kernel,
                            StepState &state) {
  return std::make_unique<KernelCall>(call, *state.plan.kernels[kernel],
                                      state.plan.kernelFunctions.at(kernel));
}

} // namespace fcdp
