// SPDX-License-Identifier: Apache-2.0
//
// Reads the values of constants from the archives that a step, its variants and
// its evaluation were exported to.
#pragma once

#include "fcdp/Conversion/Plan.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace fcdp {

/// Reads tensors from archives. An archive is opened when its first tensor is
/// read, because most steps have no constants.
class ConstantReader {
public:
  /// Takes the archives of the step, of its evaluation, and of its variants
  /// from 1 on. A path is empty if the archive is not known.
  ConstantReader(llvm::StringRef archive, llvm::StringRef evaluationArchive,
                 llvm::ArrayRef<llvm::StringRef> variantArchives = {});
  ~ConstantReader();

  llvm::Expected<std::vector<char>> operator()(llvm::StringRef name,
                                               ConstantSource source);

private:
  struct Archive {
    std::string path;
    std::unique_ptr<class Pt2Tensors> tensors;
  };
  std::map<ConstantSource, Archive> archives;
};

/// Appends the value of a buffer to the constants of an object, and returns its
/// offset.
uint64_t appendConstant(std::string &constants, llvm::ArrayRef<char> value);

/// Reads the constants that `plan` names. The archives must be those that the
/// plan was made from.
llvm::Expected<std::string> readConstants(const plan::PlanT &plan,
                                          TensorReader readTensor);

} // namespace fcdp
