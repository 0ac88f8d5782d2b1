// SPDX-License-Identifier: Apache-2.0
//
// Sizes that are equal in all examples of a step of several shapes, as those of
// tokens and of their positions.
#pragma once

#include "plan/StepPlan.h"

#include <functional>
#include <string>

namespace fcdp {

/// Returns the shape of an input of a batch, by the input's number.
using ShapeOfInput = std::function<const Shape &(size_t)>;

/// Says which sizes of a batch differ though they are equal in all variants of
/// the step: of dimensions that grow from one variant to the next, and of one
/// dimension of several inputs. Returns "" if there are none, as for a step of
/// one shape. Pre: shapes of the ranks of the inputs.
std::string describeUnequalSizes(const StepPlan &plan,
                                 const ShapeOfInput &shapeOf);

} // namespace fcdp
