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

/// Says which size of a batch is 0 though none is in any variant of the step,
/// or which sizes differ though they are equal in all variants: of dimensions
/// that grow from one variant to the next, and of one dimension of several
/// inputs. Returns "" if there are none, as for a step of one shape. Pre:
/// shapes of the ranks of the inputs.
std::string describeWrongSizes(const StepPlan &plan,
                               const ShapeOfInput &shapeOf);

} // namespace fcdp
