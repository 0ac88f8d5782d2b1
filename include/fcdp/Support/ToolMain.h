// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "llvm/ADT/STLFunctionalExtras.h"

namespace fcdp {

/// Runs a tool and returns its exit code. A file that reaches the limit of
/// files' sizes is an error of the write instead of a signal. Output that the
/// standard output did not take is reported, and the exit code is not 0 then.
int runToolMain(llvm::function_ref<int()> tool);

} // namespace fcdp
