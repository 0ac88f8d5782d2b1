// SPDX-License-Identifier: Apache-2.0
//
// Reads the values of constants from the archives that a step and its
// evaluation were exported to.
#pragma once

#include "fcdp/Conversion/Plan.h"

#include <memory>
#include <string>
#include <vector>

namespace fcdp {

/// Reads tensors of archives, each opened at the first: most steps have no
/// constants.
class ConstantReader {
public:
  ConstantReader(llvm::StringRef archive, llvm::StringRef evaluationArchive);
  ~ConstantReader();

  llvm::Expected<std::vector<char>> operator()(llvm::StringRef name,
                                               bool isOfEvaluation);

private:
  struct Source {
    std::string path;
    std::unique_ptr<class Pt2Tensors> tensors;
  };
  Source step, evaluation;
};

/// Appends the value of a buffer to the constants of an object, and returns its
/// offset.
uint64_t appendConstant(std::string &constants, llvm::ArrayRef<char> value);

/// Reads the constants that `plan` names. They must be those that it was made
/// with.
llvm::Expected<std::string> readConstants(const plan::PlanT &plan,
                                          TensorReader readTensor);

} // namespace fcdp
