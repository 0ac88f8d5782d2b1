// SPDX-License-Identifier: Apache-2.0
//
// Operators that a plan may call and libtorch does not have. They are called as
// libtorch's are, and are not registered with its dispatcher, where the Python
// package has operators of these names for its own traces.
#pragma once

#include "core/Backend.h"

#include <ATen/core/function_schema.h>
#include <ATen/core/stack.h>
#include <string>

namespace fcdp {

struct OwnOperator {
  c10::FunctionSchema schema;
  /// Takes the arguments from the stack, and leaves the results there. Throws
  /// std::runtime_error if they are not as the schema and the operator demand.
  /// `backend` is that of the tensors' device.
  void (*run)(torch::jit::Stack &stack, Backend &backend);
};

/// Returns the operator "NAMESPACE::NAME", which lives as long as the process,
/// or null. Thread-safe.
const OwnOperator *findOwnOperator(const std::string &name,
                                   const std::string &overload);

} // namespace fcdp
