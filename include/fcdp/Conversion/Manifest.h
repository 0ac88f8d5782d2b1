// SPDX-License-Identifier: Apache-2.0
//
// What a compiled step tells the runtime, see docs/manifest.md.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <string>
#include <vector>

namespace fcdp {

/// Gives the contiguous bytes of the tensor of that PyTorch name, or none if
/// the archive was exported without weights.
using TensorReader =
    llvm::function_ref<llvm::Expected<std::vector<char>>(llvm::StringRef)>;

/// An operation that becomes a call of `fcdp_rt_<kind>`.
struct RuntimeCall {
  mlir::Operation *op;
  llvm::StringRef kind;
};

struct Manifest {
  /// The JSON text.
  std::string text;
  /// The values of buffers that are not persistent; offsets are in the text.
  std::string constants;
  /// Entry i is what the text's op i describes; functions follow each other.
  std::vector<RuntimeCall> calls;
};

/// Describes `module`, which is in phase `planned`. Reads constants by
/// `readTensor`. Errors go to the operations' diagnostics.
mlir::FailureOr<Manifest> buildManifest(mlir::ModuleOp module,
                                        TensorReader readTensor);

} // namespace fcdp
