// SPDX-License-Identifier: Apache-2.0
//
// Generates the code of kernels for CPUs.
#pragma once

#include "dialects/Fcdp/Fcdp.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/Error.h"
#include "llvm/Target/TargetMachine.h"

namespace fcdp {

/// Adds the functions of `kernels` (fcdp/runtime.h) for each level of x86-64 to
/// `module`, and optimizes them. Refuses other processors.
llvm::Error addKernelCode(llvm::Module &module,
                          llvm::ArrayRef<KernelOp> kernels,
                          llvm::TargetMachine &machine);

} // namespace fcdp
