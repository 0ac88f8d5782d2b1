// SPDX-License-Identifier: Apache-2.0
//
// Converts constant arguments of the plan to the types of a schema.
#pragma once

#include "plan/StepPlan.h"

#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>

namespace fcdp {

/// Converts `value`, which must not be a slot, for an argument of a schema.
/// Throws std::runtime_error "expects int[], the plan gives a string".
c10::IValue toIValue(const plan::ArgumentT &value,
                     const c10::Argument &argument);

/// Returns, for example, "a tensor" or "a list of integers".
const char *describe(const plan::ArgumentT &value);

} // namespace fcdp
