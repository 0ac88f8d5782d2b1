// SPDX-License-Identifier: Apache-2.0
//
// Writes modules of the LLVM dialect to files.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

namespace fcdp {

enum class OutputKind {
  /// A shared object, for fcdp-run.
  SharedObject,
  /// A relocatable object, for a linker.
  Object,
  /// LLVM IR as text, for people.
  LLVMIR
};

/// Returns the kind of output for a file name: LLVM IR for `.ll`, a relocatable
/// object for `.o`, and a shared object for all others.
OutputKind getOutputKind(llvm::StringRef path);

/// Compiles `module`, which has data in the LLVM dialect and kernels, for this
/// machine's architecture (on x86-64 for every processor since x86-64-v2) and
/// writes it to `path`. The file appears complete or not at all, and the same
/// module gives the same bytes.
llvm::Error emitObject(mlir::ModuleOp module, llvm::StringRef path,
                       OutputKind kind);

} // namespace fcdp
