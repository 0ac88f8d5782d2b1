// SPDX-License-Identifier: Apache-2.0
#include "policy/EqualSizes.h"

namespace fcdp {

namespace {

/// One dimension of an input.
struct Dim {
  size_t input, dim;
};

std::string describeSize(const StepPlan &plan, Dim at, int64_t size) {
  return "size " + std::to_string(size) + " of dimension " +
         std::to_string(at.dim) + " of input '" +
         plan.greatestInputs()[at.input]->name + "'";
}

/// Returns whether both sizes are equal in all shapes of the step. Sizes that
/// never grow may be equal by chance, unless they are the same dimension.
bool areTied(const StepPlan &plan, Dim one, Dim other) {
  bool grows = false;
  for (StepPlan::Inputs inputs : plan.inputsOfShapes()) {
    auto sizeOf = [&](Dim at) { return inputs[at.input]->shape[at.dim]; };
    if (sizeOf(one) != sizeOf(other))
      return false;
    grows |= sizeOf(one) != plan.greatestInputs()[one.input]->shape[one.dim];
  }
  return grows || one.dim == other.dim;
}

} // namespace

std::string describeWrongSizes(const StepPlan &plan,
                               const ShapeOfInput &shapeOf) {
  if (!plan.hasSeveralShapes())
    return "";
  const size_t inputs = plan.numStepInputs();
  auto sizeOf = [&](Dim at) { return shapeOf(at.input)[at.dim]; };
  const StepPlan::Inputs least = plan.stepInputs(0);
  for (Dim at{0, 0}; at.input < inputs; ++at.input)
    for (at.dim = 0; at.dim < shapeOf(at.input).size(); ++at.dim)
      if (sizeOf(at) == 0 && least[at.input]->shape[at.dim] != 0)
        return "got " + describeSize(plan, at, 0) +
               ": expected at least 1, as in all examples of the step; such a "
               "batch would train on padding alone";
  auto describePair = [&](Dim one, Dim other) {
    return "got " + describeSize(plan, one, sizeOf(one)) + ", and " +
           describeSize(plan, other, sizeOf(other)) +
           ": expected equal ones, as in all examples of the step; pad both to "
           "one length, or give examples in which they differ";
  };
  for (Dim one{0, 0}; one.input < inputs; ++one.input)
    for (one.dim = 0; one.dim < shapeOf(one.input).size(); ++one.dim)
      for (Dim other{0, 0}; other.input <= one.input; ++other.input)
        for (other.dim = 0; other.dim < shapeOf(other.input).size();
             ++other.dim)
          if (sizeOf(one) != sizeOf(other) && areTied(plan, one, other))
            return describePair(other, one);
  return "";
}

} // namespace fcdp
