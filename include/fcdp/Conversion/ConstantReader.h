// SPDX-License-Identifier: Apache-2.0
//
// Reads the values of constants from the archive that a step was exported to.
#pragma once

#include "fcdp/Conversion/Plan.h"

#include <memory>
#include <string>
#include <vector>

namespace fcdp {

/// Reads tensors of an archive, opened at the first: most steps have no
/// constants.
class ConstantReader {
public:
  explicit ConstantReader(llvm::StringRef archive);
  ~ConstantReader();

  llvm::Expected<std::vector<char>> operator()(llvm::StringRef name);

private:
  std::string path;
  std::unique_ptr<class Pt2Tensors> tensors;
};

/// Appends the value of a buffer to the constants of an object, and returns its
/// offset.
uint64_t appendConstant(std::string &constants, llvm::ArrayRef<char> value);

/// Reads the constants that `plan` names. They must be those that it was made
/// with.
llvm::Expected<std::string> readConstants(const plan::PlanT &plan,
                                          TensorReader readTensor);

} // namespace fcdp
