// SPDX-License-Identifier: Apache-2.0
//
// Reads training-step archives (.pt2) as fcdp.export writes them.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/MemoryBufferRef.h"

namespace fcdp {

/// Reads the archive at `path` as a module in the phase `imported`. Weights
/// stay in the archive. Returns null after an error, which goes to the
/// context's diagnostics, located at the file.
mlir::OwningOpRef<mlir::ModuleOp> importPt2(llvm::StringRef path,
                                            mlir::MLIRContext *context);

/// The same for an archive in memory; its identifier is taken for the path.
mlir::OwningOpRef<mlir::ModuleOp> importPt2(llvm::MemoryBufferRef archive,
                                            mlir::MLIRContext *context);

/// Registers `--import-pt2`, which prints the module with its locations.
void registerImportPt2Translation();

} // namespace fcdp
