// SPDX-License-Identifier: Apache-2.0
//
// Reads training-step archives (.pt2) as fcdp.export writes them.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/MemoryBufferRef.h"

namespace fcdp {

/// Reads the archive at `path` into a module in phase `imported`. Weights stay
/// in the archive. After an error it reports a diagnostic, located at the file,
/// and returns null.
mlir::OwningOpRef<mlir::ModuleOp> importPt2(llvm::StringRef path,
                                            mlir::MLIRContext *context);

/// Does the same for an archive in memory. Errors name its identifier instead
/// of a path.
mlir::OwningOpRef<mlir::ModuleOp> importPt2(llvm::MemoryBufferRef archive,
                                            mlir::MLIRContext *context);

/// Registers `--import-pt2`, which prints the module with locations.
void registerImportPt2Translation();

} // namespace fcdp
