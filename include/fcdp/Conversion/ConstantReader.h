// SPDX-License-Identifier: Apache-2.0
//
// Reads the values of constants from the archives that a step was exported to.
#pragma once

#include "fcdp/Conversion/Plan.h"
#include "fcdp/Import/Pt2Tensors.h"

#include <map>
#include <string>
#include <vector>

namespace fcdp {

/// Reads tensors from archives. An archive is opened when its first tensor is
/// read, because most steps have no constants.
class ConstantReader {
public:
  /// Takes the archives that getArchives returns.
  explicit ConstantReader(std::vector<std::string> paths);

  llvm::Expected<std::vector<char>> operator()(llvm::StringRef name,
                                               size_t archive);

private:
  std::vector<std::string> paths;
  /// The open archives, by number.
  std::map<size_t, Pt2Tensors> open;
};

/// Appends the value of a buffer to the constants of an object, and returns its
/// offset.
uint64_t appendConstant(std::string &constants, llvm::ArrayRef<char> value);

/// Reads the constants that `plan` names. The archives must be those that the
/// plan was made from.
llvm::Expected<std::string> readConstants(const plan::PlanT &plan,
                                          TensorReader readTensor);

} // namespace fcdp
