// SPDX-License-Identifier: Apache-2.0
#include "session/InputCheck.h"

#include "session/IntegerAccess.h"
#include "session/SessionError.h"

namespace fcdp {

namespace {

[[noreturn]] void refuse(const std::string &message) {
  throw SessionError(SessionErrorCode::InputMismatch, message);
}

void checkValues(const plan::InputT &input, const TensorView &tensor,
                 const std::string &where) {
  if (!input.indexLimit)
    return;
  const int64_t elements = numElements(input.shape);
  for (int64_t i = 0; i < elements; ++i) {
    std::string problem = describeBadValue(
        loadInteger(tensor.data, i, formOf(toDType(input.dtype))), i, input);
    if (!problem.empty())
      refuse(where + problem);
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

void checkInputs(const StepPlan &plan, std::span<const TensorView> inputs) {
  const size_t perBatch = plan.numStepInputs();
  const size_t expected = perBatch * plan.microBatches;
  if (inputs.size() != expected)
    refuse("expected " + std::to_string(expected) + " tensors, " +
           std::to_string(perBatch) + " for each of " +
           std::to_string(plan.microBatches) + " micro-batches, got " +
           std::to_string(inputs.size()));
  for (size_t i = 0; i < inputs.size(); ++i) {
    const plan::InputT &input = *plan.inputs[i % perBatch];
    const TensorView &tensor = inputs[i];
    std::string where = "input '" + input.name + "' of micro-batch " +
                        std::to_string(i / perBatch) + ": ";
    if (tensor.dtype != toDType(input.dtype) || tensor.shape != input.shape)
      refuse(where + "expected " + name(toDType(input.dtype)) +
             toString(input.shape) + ", got " + name(tensor.dtype) +
             toString(tensor.shape));
    if (!tensor.data && numElements(input.shape) != 0)
      refuse(where + "expected data, got a null pointer");
    checkValues(input, tensor, where);
  }
}

} // namespace fcdp
