// SPDX-License-Identifier: Apache-2.0
#include "inputs/Shapes.h"

namespace fcdp::run {

Shapes::Shapes(const StepPlan &plan,
               const std::map<std::string, double> &padding)
    : plan(plan), greatest(plan.greatestInputs()), variants(plan.numVariants()),
      paddings(makePaddings(plan, padding)) {}

bool Shapes::fits(size_t input, uint32_t variant,
                  std::span<const std::byte> row) const {
  return isPaddedBeyond(plan.stepInputs(variant)[input]->shape, row,
                        greatest[input]->shape, paddings[input]);
}

uint32_t Shapes::find(const std::vector<std::vector<std::byte>> &rows) const {
  uint32_t variant = 0;
  for (size_t i = 0; i < rows.size(); ++i)
    while (variant + 1 < variants &&
           !fits(i % greatest.size(), variant, rows[i]))
      ++variant;
  return variant;
}

void Shapes::cut(size_t input, const StepNeeds &needs,
                 std::span<const std::byte> row,
                 std::span<std::byte> out) const {
  copyPadded(row, greatest[input]->shape, out,
             plan.stepInputs(needs.variant)[input]->shape, paddings[input]);
}

} // namespace fcdp::run
