// SPDX-License-Identifier: Apache-2.0
//
// Turns constant arguments of the manifest into what a schema asks for.
#pragma once

#include "plan/Manifest.h"

#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>

namespace fcdp {

/// The value of `value`, which is not a slot, for an argument of a schema.
/// Throws std::runtime_error "expects int[], the manifest gives a string".
c10::IValue toIValue(const Arg &value, const c10::Argument &argument);

/// "a tensor", "a list of integers", ...
const char *describe(const Arg &value);

} // namespace fcdp
