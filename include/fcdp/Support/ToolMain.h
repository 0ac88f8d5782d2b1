// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "llvm/ADT/STLFunctionalExtras.h"

namespace fcdp {

/// Runs a tool and returns its exit code. If a file reaches the limit on file
/// sizes, the write fails, and no signal ends the tool. If writing to the
/// standard output fails, this is reported and the exit code is not 0.
int runToolMain(llvm::function_ref<int()> tool);

} // namespace fcdp
