// SPDX-License-Identifier: Apache-2.0
#include "inputs/Shapes.h"

#include <algorithm>
#include <stdexcept>

namespace fcdp::run {

Shapes::Shapes(const StepPlan &plan,
               const std::map<std::string, double> &padding)
    : plan(plan), greatest(plan.greatestInputs()) {
  for (const auto &[name, value] : padding) {
    bool isKnown = std::any_of(
        greatest.begin(), greatest.end(),
        [&name = name](const auto &input) { return input->name == name; });
    if (!areSeveral() || !isKnown)
      throw std::runtime_error(
          "--pad " + name +
          (isKnown ? ": expected a step of several shapes, got one of one shape"
                   : ": the step has no input of that name"));
  }
  for (const auto &input : greatest) {
    auto given = padding.find(input->name);
    paddings.push_back(
        makePadding(*input, given == padding.end() ? 0 : given->second));
  }
}

bool Shapes::fits(size_t input, uint32_t variant,
                  std::span<const std::byte> row) const {
  return isPaddedBeyond(plan.stepInputs(variant)[input]->shape, row,
                        greatest[input]->shape, paddings[input]);
}

uint32_t Shapes::find(const std::vector<std::vector<std::byte>> &rows) const {
  uint32_t variant = 0;
  const uint32_t last = plan.numVariants() - 1;
  for (size_t i = 0; i < rows.size(); ++i)
    while (variant < last && !fits(i % greatest.size(), variant, rows[i]))
      ++variant;
  return variant;
}

void Shapes::cut(size_t input, uint32_t variant, std::span<const std::byte> row,
                 std::span<std::byte> out) const {
  copyPadded(row, greatest[input]->shape, out,
             plan.stepInputs(variant)[input]->shape, paddings[input]);
}

} // namespace fcdp::run
