// SPDX-License-Identifier: Apache-2.0
//
// Which operators a plan may call: those whose only effect is their results.
#pragma once

#include "plan/Plan_generated.h"

#include <ATen/core/function_schema.h>
#include <string>

namespace fcdp {

/// Why a plan may not call an operator. The first that holds, by its schema.
enum class OperatorRule {
  Allowed,
  /// It is none of ATen's. Other libraries' write files, send messages, or keep
  /// objects.
  OtherLibrary,
  /// It changes an argument.
  Writes,
  /// The same, which its schema does not say.
  WritesSilently,
  /// None of its results is a tensor, so it is called for something else.
  NoTensor,
  /// It takes a text that is no choice, such as the name of a file.
  Text,
  /// It takes a storage, a stream or another object.
  Object
};

OperatorRule ruleOf(const c10::FunctionSchema &schema);

/// Returns why the plan may not make this call, as an end of "'aten::x' ", or
/// nothing if it may. A call that writes its result to an argument `out` may be
/// made if the operator that makes new memory instead may be called.
std::string refusalOf(const plan::AtenCallT &call,
                      const c10::FunctionSchema &schema);

} // namespace fcdp
