// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "llvm/Support/Error.h"

namespace fcdp {

/// The parameters that are gathered and reduced together.
enum class Wrap {
  /// The parameters of a unit.
  Unit,
  /// The parameters of a module that has parameters of its own.
  Module,
  /// The parameters of a unit. Recomputed operations of the backward pass have
  /// a gather of their own.
  Checkpoint
};

/// Parses `unit`, `module` or `checkpoint`. Errors list them.
llvm::Expected<Wrap> parseWrap(llvm::StringRef text);

} // namespace fcdp
