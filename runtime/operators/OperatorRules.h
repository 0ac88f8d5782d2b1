// SPDX-License-Identifier: Apache-2.0
//
// Decides which operators a plan may call: those whose only effect is their
// results.
#pragma once

#include "plan/Plan_generated.h"

#include <ATen/core/function_schema.h>
#include <string>

namespace fcdp {

/// The reasons why a plan may not call an operator, by its schema. The first
/// that applies is given.
enum class OperatorRule {
  Allowed,
  /// The operator is not ATen's. Operators of other libraries may write files,
  /// send messages, or keep objects.
  OtherLibrary,
  /// The operator changes an argument.
  Writes,
  /// The operator changes an argument without a mark in its schema.
  WritesSilently,
  /// None of its results is a tensor, so it is called for another effect.
  NoTensor,
  /// It takes a text that does not select what is computed, such as the name of
  /// a file.
  Text,
  /// It takes a storage, a stream or another object.
  Object
};

OperatorRule ruleOf(const c10::FunctionSchema &schema);

/// Returns the reason why the plan may not make this call, worded to follow
/// "'aten::x' ", or an empty string if it may. A call that writes its result to
/// an argument `out` is allowed if the operator that makes new memory instead
/// is.
std::string refusalOf(const plan::AtenCallT &call,
                      const c10::FunctionSchema &schema);

} // namespace fcdp
