// SPDX-License-Identifier: Apache-2.0
#include "policy/InputCheck.h"

#include "core/SessionError.h"
#include "policy/EqualSizes.h"
#include "policy/IntegerAccess.h"

#include <algorithm>
#include <functional>

namespace fcdp {

namespace {

[[noreturn]] void refuse(const std::string &message) {
  throw SessionError(SessionErrorCode::InputMismatch, message);
}

void checkValues(const plan::InputT &input, const TensorView &tensor,
                 const std::string &where) {
  if (!input.indexLimit)
    return;
  const int64_t elements = numElements(tensor.shape);
  for (int64_t i = 0; i < elements; ++i) {
    std::string problem = describeBadValue(
        loadInteger(tensor.data, i, formOf(toDType(input.dtype))), i, input);
    if (!problem.empty())
      refuse(where + problem);
  }
}

/// Returns whether a tensor of `shape` fits into one of shape `into`.
bool fitsInto(const Shape &into, const Shape &shape) {
  return shape.size() == into.size() &&
         std::equal(shape.begin(), shape.end(), into.begin(),
                    std::less_equal<>());
}

/// Checks the inputs of `batches` batches. Each batch has all inputs of
/// `expected`, or smaller ones if `mayBeSmaller`.
void checkTensors(StepPlan::Inputs expected, const std::string &batch,
                  int64_t batches, std::span<const TensorView> inputs,
                  bool mayBeSmaller = false) {
  const size_t total = expected.size() * size_t(batches);
  if (inputs.size() != total)
    refuse("expected " + std::to_string(total) + " tensors, " +
           std::to_string(expected.size()) + " for each of " +
           std::to_string(batches) + " " + batch + "es, got " +
           std::to_string(inputs.size()));
  for (size_t i = 0; i < inputs.size(); ++i) {
    const plan::InputT &input = *expected[i % expected.size()];
    const TensorView &tensor = inputs[i];
    std::string where = "input '" + input.name + "' of " + batch + " " +
                        std::to_string(i / expected.size()) + ": ";
    bool fits = mayBeSmaller ? fitsInto(input.shape, tensor.shape)
                             : tensor.shape == input.shape;
    if (tensor.dtype != toDType(input.dtype) || !fits)
      refuse(where + "expected " + (mayBeSmaller ? "at most " : "") +
             name(toDType(input.dtype)) + toString(input.shape) + ", got " +
             name(tensor.dtype) + toString(tensor.shape));
    if (!tensor.data && numElements(tensor.shape) != 0)
      refuse(where + "expected data, got a null pointer");
    checkValues(input, tensor, where);
  }
}

} // namespace

std::string describeBadValue(int64_t value, int64_t position,
                             const plan::InputT &input) {
  if (!input.indexLimit || (value >= 0 && value < *input.indexLimit) ||
      value == input.ignoreIndex)
    return "";
  std::string allowed = "[0, " + std::to_string(*input.indexLimit) + ")";
  if (input.ignoreIndex)
    allowed += " or " + std::to_string(*input.ignoreIndex);
  return "value " + std::to_string(value) + " at position " +
         std::to_string(position) + ": expected " + allowed;
}

uint32_t checkInputs(const StepPlan &plan, std::span<const TensorView> inputs) {
  checkTensors(plan.greatestInputs(), "micro-batch", plan.microBatches, inputs,
               /*mayBeSmaller=*/plan.hasSeveralShapes());
  const size_t perBatch = plan.numStepInputs();
  for (size_t first = 0; first < inputs.size(); first += perBatch) {
    std::string problem =
        describeWrongSizes(plan, [&](size_t i) -> const Shape & {
          return inputs[first + i].shape;
        });
    if (!problem.empty())
      refuse("micro-batch " + std::to_string(first / perBatch) + ": " +
             problem);
  }
  auto fitsAll = [&](StepPlan::Inputs own) {
    for (size_t i = 0; i < inputs.size(); ++i)
      if (!fitsInto(own[i % own.size()]->shape, inputs[i].shape))
        return false;
    return true;
  };
  const std::vector<StepPlan::Inputs> shapes = plan.inputsOfShapes();
  // The checks above found that all fit into the greatest.
  return uint32_t(std::find_if(shapes.begin(), shapes.end() - 1, fitsAll) -
                  shapes.begin());
}

void checkBatches(StepPlan::Inputs expected, int64_t batches,
                  std::span<const TensorView> inputs) {
  checkTensors(expected, "batch", batches, inputs);
}

} // namespace fcdp
