// SPDX-License-Identifier: Apache-2.0
//
// Turns constant arguments of the plan into what a schema asks for.
#pragma once

#include "plan/StepPlan.h"

#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>

namespace fcdp {

/// The value of `value`, which is not a slot, for an argument of a schema.
/// Throws std::runtime_error "expects int[], the plan gives a string".
c10::IValue toIValue(const plan::ArgumentT &value,
                     const c10::Argument &argument);

/// "a tensor", "a list of integers", ...
const char *describe(const plan::ArgumentT &value);

} // namespace fcdp
