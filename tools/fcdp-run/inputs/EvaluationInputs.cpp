// SPDX-License-Identifier: Apache-2.0
#include "inputs/EvaluationInputs.h"

#include <algorithm>
#include <stdexcept>

namespace fcdp::run {

namespace {

/// Returns the first option that requests evaluations, or null.
const char *findRequest(const EvaluationOptions &options) {
  if (options.every)
    return "--eval-every";
  if (options.batches)
    return "--eval-batches";
  if (options.keepBest)
    return "--keep-best";
  if (options.isAlone)
    return "--steps=0";
  return options.inputs.empty() ? nullptr : "--eval-input";
}

/// Returns the options that name an input of the evaluation.
std::vector<InputOption> selectOptions(const StepPlan &plan,
                                       const std::vector<InputOption> &inputs) {
  std::vector<InputOption> selected;
  for (const InputOption &option : inputs)
    if (std::any_of(plan.inputs.begin(), plan.inputs.end(),
                    [&](const auto &input) {
                      return input->evaluation && input->name == option.name;
                    }))
      selected.push_back(option);
  return selected;
}

InputGroup groupOf(StepPlan::Inputs inputs) {
  return {inputs, "--eval-input", "the evaluation's"};
}

} // namespace

void checkNamesOfAll(const StepPlan &plan,
                     const std::vector<InputOption> &options) {
  // The inputs of the evaluation follow those of the greatest shape.
  const StepPlan::Inputs ofStep = plan.greatestInputs();
  const StepPlan::Inputs all =
      StepPlan::Inputs(plan.inputs).subspan(plan.firstOf(ofStep));
  checkNames(ofStep.empty() && !all.empty() ? groupOf(all) : InputGroup{all},
             options);
}

EvaluationInputs::EvaluationInputs(const StepPlan &plan,
                                   const std::vector<InputOption> &options,
                                   const DataOptions &data,
                                   std::optional<int64_t> given)
    : inputs(plan, groupOf(plan.evaluationInputs()), options, data),
      batches(1) {
  if (given)
    batches = *given;
  else if (inputs.order())
    batches = std::max<int64_t>(
        inputs.order()->rowsOf(0) / int64_t(plan.mesh.size()), 1);
}

std::unique_ptr<EvaluationInputs>
EvaluationInputs::open(const StepPlan &plan, const EvaluationOptions &options,
                       const std::vector<InputOption> &inputs,
                       const DataOptions &data) {
  const char *request = findRequest(options);
  if (!plan.evaluates()) {
    if (request)
      throw std::runtime_error(std::string(request) +
                               ": expected a step that was compiled with "
                               "--eval, got one without an evaluation");
    return nullptr;
  }
  auto make = [&](const std::vector<InputOption> &own, DataOptions order) {
    return std::unique_ptr<EvaluationInputs>(
        new EvaluationInputs(plan, own, order, options.batches));
  };
  if (!options.inputs.empty())
    return make(options.inputs, {});
  if (data.validationMillionths > 0 && data.split == Split::Train) {
    DataOptions heldOut;
    heldOut.validationMillionths = data.validationMillionths;
    heldOut.split = Split::Validation;
    return make(selectOptions(plan, inputs), heldOut);
  }
  if (request)
    throw std::runtime_error(
        std::string(request) +
        ": expected --eval-input NAME=FILE for each input "
        "of the evaluation, or --data=validation=FRACTION");
  return nullptr;
}

} // namespace fcdp::run
