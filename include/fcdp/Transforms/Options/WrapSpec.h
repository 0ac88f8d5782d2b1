// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "llvm/Support/Error.h"

namespace fcdp {

/// The parameters that are gathered and reduced together.
enum class Wrap {
  /// Those of a unit.
  Unit,
  /// Those of a module that has parameters of its own.
  Module,
  /// Those of a unit. What the backward pass recomputes has its own gather.
  Checkpoint
};

/// `unit`, `module` or `checkpoint`. The error lists them.
llvm::Expected<Wrap> parseWrap(llvm::StringRef text);

} // namespace fcdp
