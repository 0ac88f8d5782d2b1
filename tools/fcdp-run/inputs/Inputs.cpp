// SPDX-License-Identifier: Apache-2.0
#include "inputs/Inputs.h"

#include <algorithm>
#include <stdexcept>

namespace fcdp::run {

namespace {

std::string listInputs(const StepPlan &plan) {
  std::string list;
  for (const auto &input : plan.inputs)
    list += (list.empty() ? "" : ", ") + input->name + " " +
            name(toDType(input->dtype)) + toString(input->shape);
  return "the step's inputs are: " + (list.empty() ? "none" : list);
}

void checkNames(const StepPlan &plan, const std::vector<InputOption> &options) {
  for (size_t i = 0; i < options.size(); ++i) {
    const std::string &name = options[i].name;
    bool known =
        std::any_of(plan.inputs.begin(), plan.inputs.end(),
                    [&](const auto &input) { return input->name == name; });
    if (!known)
      throw std::runtime_error("--input " + name + ": unknown; " +
                               listInputs(plan));
    for (size_t j = 0; j < i; ++j)
      if (options[j].name == name)
        throw std::runtime_error("--input " + name + ": given twice");
  }
}

const InputOption &optionFor(const plan::InputT &input, const StepPlan &plan,
                             const std::vector<InputOption> &options) {
  for (const InputOption &option : options)
    if (option.name == input.name)
      return option;
  throw std::runtime_error("--input " + input.name + "=FILE is missing; " +
                           listInputs(plan));
}

} // namespace

Inputs::Inputs(const StepPlan &plan, const std::vector<InputOption> &options,
               const DataOptions &data)
    : plan(plan), inputOptions(options), data(data) {
  checkNames(plan, options);
  for (const auto &input : plan.inputs)
    sources.push_back(openInput(optionFor(*input, plan, options).spec, *input));
  if (auto rows = findRows())
    dataOrder.emplace(data, *rows);
  else if (data.shuffleSeed)
    throw std::runtime_error("--data: shuffle: expected an input from a file, "
                             "got only random ones, which have no end");
}

std::optional<int64_t> Inputs::findRows() const {
  const plan::InputT *whole = nullptr;
  std::optional<int64_t> rows;
  for (size_t i = 0; i < sources.size(); ++i) {
    auto own = sources[i]->rows();
    if (!own || sources[i]->isWindowed())
      continue;
    if (whole && *own != *rows)
      throw std::runtime_error(
          "expected files with equal numbers of rows, got " +
          std::to_string(*rows) + " for input '" + whole->name + "' and " +
          std::to_string(*own) + " for input '" + plan.inputs[i]->name + "'");
    whole = plan.inputs[i].get();
    rows = own;
  }
  for (const auto &source : sources)
    if (source->isWindowed())
      rows = std::min(rows.value_or(*source->rows()), *source->rows());
  return rows;
}

void Inputs::checkValues() const {
  for (const auto &source : sources)
    source->checkValues();
}

void Inputs::startAt(int64_t step, int64_t row) {
  startStep = step;
  startRow = row;
}

int64_t Inputs::firstRowOf(int64_t step) const {
  return startRow +
         (step - startStep) * plan.microBatches * int64_t(plan.mesh.size());
}

std::optional<int64_t> Inputs::epochOf(int64_t step) const {
  if (!dataOrder)
    return std::nullopt;
  return dataOrder->epochsBefore(firstRowOf(step + 1) - 1) + 1;
}

std::optional<int64_t> Inputs::epochThatEndsIn(int64_t step) const {
  if (!dataOrder)
    return std::nullopt;
  int64_t ended = dataOrder->epochsBefore(firstRowOf(step + 1));
  return ended > dataOrder->epochsBefore(firstRowOf(step))
             ? std::optional(ended)
             : std::nullopt;
}

void Inputs::read(size_t input, int64_t step, int64_t microBatch, uint32_t rank,
                  std::span<std::byte> out) const {
  int64_t position =
      firstRowOf(step) + microBatch * int64_t(plan.mesh.size()) + rank;
  sources[input]->read(dataOrder ? dataOrder->rowAt(position) : position, out);
}

} // namespace fcdp::run
