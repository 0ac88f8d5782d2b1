// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dialects/Fcdp/Fcdp.h"
#include "fcdp/Conversion/TensorReader.h"

namespace fcdp {

/// The values of the buffers that travel in the object.
class ConstantTable {
public:
  /// Reads the values of all buffers that are not persistent.
  static mlir::FailureOr<ConstantTable> read(mlir::ModuleOp module,
                                             TensorReader readTensor);

  /// Returns the offset of the buffer's value, or nullopt.
  std::optional<int64_t> lookup(BufferOp buffer) const;

  std::string bytes;

private:
  llvm::DenseMap<mlir::Operation *, int64_t> offsets;
};

} // namespace fcdp
