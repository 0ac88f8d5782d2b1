// SPDX-License-Identifier: Apache-2.0
//
// Reads training-step archives (.pt2) as fcdp.export writes them.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/MemoryBufferRef.h"

#include <memory>
#include <vector>

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

/// The values that an archive holds: parameters, buffers and tensor constants.
class Pt2Tensors {
public:
  static llvm::Expected<Pt2Tensors> open(llvm::StringRef path);
  /// `archive` must outlive the reader.
  static llvm::Expected<Pt2Tensors> open(llvm::MemoryBufferRef archive);

  Pt2Tensors(Pt2Tensors &&);
  Pt2Tensors &operator=(Pt2Tensors &&);
  ~Pt2Tensors();

  /// The contiguous little-endian bytes of the tensor of that PyTorch name (a
  /// tied parameter: any of its names). `i1` takes a byte. None if the archive
  /// was exported without weights.
  llvm::Expected<std::vector<char>> readTensor(llvm::StringRef name) const;

private:
  struct State;
  explicit Pt2Tensors(std::unique_ptr<State> state);
  std::unique_ptr<State> state;
};

} // namespace fcdp
