// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/Error.h"
#include "llvm/Target/TargetMachine.h"

namespace fcdp {

/// Returns a target machine for position-independent code on this host.
/// `hasCode` says whether there is more than data.
llvm::Expected<std::unique_ptr<llvm::TargetMachine>>
createTargetMachine(bool hasCode);

/// Translates `module`, which is in the LLVM dialect, for `machine`.
llvm::Expected<std::unique_ptr<llvm::Module>>
translateToLLVMIR(mlir::ModuleOp module, llvm::LLVMContext &context,
                  const llvm::TargetMachine &machine);

/// Writes machine code.
llvm::Error emitMachineCode(llvm::Module &module, llvm::TargetMachine &machine,
                            llvm::raw_pwrite_stream &stream);

} // namespace fcdp
