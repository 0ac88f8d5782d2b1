// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Conversion/ConstantReader.h"

#include "dialects/Fcdp/Fcdp.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace fcdp;

ConstantReader::ConstantReader(std::vector<std::string> paths)
    : paths(std::move(paths)) {}

llvm::Expected<std::vector<char>> ConstantReader::operator()(StringRef name,
                                                             size_t archive) {
  auto tensors = open.find(archive);
  if (tensors == open.end()) {
    if (archive >= paths.size() || paths[archive].empty())
      return llvm::createStringError("the module names no archive in '" +
                                     getArchiveAttr(archive) +
                                     "', and no other archive is given");
    llvm::Expected<Pt2Tensors> opened = Pt2Tensors::open(paths[archive]);
    if (!opened)
      return llvm::createStringError("'" + paths[archive] +
                                     "': " + toString(opened.takeError()));
    tensors = open.emplace(archive, std::move(*opened)).first;
  }
  return tensors->second.readTensor(name);
}

uint64_t fcdp::appendConstant(std::string &constants, ArrayRef<char> value) {
  // The alignment of bucket members, because kernels may give other bits at
  // other alignments.
  uint64_t offset = llvm::alignTo(constants.size(), kMemberAlignment);
  constants.resize(offset);
  constants.append(value.begin(), value.end());
  return offset;
}

llvm::Expected<std::string> fcdp::readConstants(const plan::PlanT &plan,
                                                TensorReader readTensor) {
  std::string constants;
  for (const auto &buffer : plan.buffers) {
    if (!buffer->constantOffset)
      continue;
    llvm::Expected<std::vector<char>> value =
        readTensor(buffer->name, getArchiveOf(*buffer));
    if (!value)
      return llvm::createStringError("cannot read the value of buffer '" +
                                     buffer->name +
                                     "': " + toString(value.takeError()));
    if (appendConstant(constants, *value) != *buffer->constantOffset)
      return llvm::createStringError("expected buffers in the order of their "
                                     "values, got '" +
                                     buffer->name + "' at byte " +
                                     llvm::Twine(*buffer->constantOffset));
  }
  if (hashBytes(constants) != plan.constantsHash)
    return llvm::createStringError("the archive has other constants than the "
                                   "one that the plan was made from");
  return constants;
}
