// SPDX-License-Identifier: Apache-2.0
//
// Checks sizes that are equal in all examples of a step of several shapes, such
// as those of tokens and of their positions.
#pragma once

#include "plan/StepPlan.h"

#include <functional>
#include <string>

namespace fcdp {

/// Returns the shape of an input of a batch, by the input's number.
using ShapeOfInput = std::function<const Shape &(size_t)>;

/// Returns an error message about the sizes of a batch, or "" if they are
/// right, as for a step of one shape. A size must not be 0 unless it is 0 in a
/// shape of the step. Sizes that are equal in all shapes must be equal: those
/// of dimensions that grow from one shape to the next, and those of one
/// dimension of several inputs. Pre: shapes have the ranks of the inputs.
std::string describeWrongSizes(const StepPlan &plan,
                               const ShapeOfInput &shapeOf);

} // namespace fcdp
