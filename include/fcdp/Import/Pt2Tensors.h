// SPDX-License-Identifier: Apache-2.0
//
// Reads the values of tensors from training-step archives (.pt2).
#pragma once

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/MemoryBufferRef.h"

#include <memory>
#include <vector>

namespace fcdp {

/// The values that an archive holds: parameters, buffers and tensor constants.
class Pt2Tensors {
public:
  static llvm::Expected<Pt2Tensors> open(llvm::StringRef path);
  /// Opens an archive in memory, which must outlive the reader.
  static llvm::Expected<Pt2Tensors> open(llvm::MemoryBufferRef archive);

  Pt2Tensors(Pt2Tensors &&);
  Pt2Tensors &operator=(Pt2Tensors &&);
  ~Pt2Tensors();

  /// Returns the contiguous little-endian bytes of the tensor with that PyTorch
  /// name (any of its names for a tied parameter). An `i1` takes a byte.
  /// Returns none if the archive was exported without weights.
  llvm::Expected<std::vector<char>> readTensor(llvm::StringRef name) const;

private:
  struct State;
  explicit Pt2Tensors(std::unique_ptr<State> state);
  std::unique_ptr<State> state;
};

} // namespace fcdp
