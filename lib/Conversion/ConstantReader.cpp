// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Conversion/ConstantReader.h"

#include "dialects/Fcdp/Fcdp.h"
#include "fcdp/Import/Pt2Tensors.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace fcdp;

ConstantReader::ConstantReader(StringRef archive, StringRef evaluationArchive,
                               ArrayRef<StringRef> variantArchives) {
  archives[{}].path = archive.str();
  archives[{/*isEvaluation=*/true}].path = evaluationArchive.str();
  for (auto [i, path] : llvm::enumerate(variantArchives))
    archives[{/*isEvaluation=*/false, static_cast<uint32_t>(i + 1)}].path =
        path.str();
}
ConstantReader::~ConstantReader() = default;

llvm::Expected<std::vector<char>>
ConstantReader::operator()(StringRef name, ConstantSource source) {
  auto &[path, tensors] = archives[source];
  if (!tensors) {
    if (path.empty())
      return llvm::createStringError(
          "the module names no archive in '" +
          (source.isEvaluation
               ? FcdpDialect::EvaluationArchiveAttrHelper::getNameStr()
           : source.variant > 0
               ? FcdpDialect::VariantArchivesAttrHelper::getNameStr()
               : FcdpDialect::ArchiveAttrHelper::getNameStr()) +
          "', and no other archive is given");
    llvm::Expected<Pt2Tensors> opened = Pt2Tensors::open(path);
    if (!opened)
      return llvm::createStringError("'" + path +
                                     "': " + toString(opened.takeError()));
    tensors = std::make_unique<Pt2Tensors>(std::move(*opened));
  }
  return tensors->readTensor(name);
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
    llvm::Expected<std::vector<char>> value = readTensor(
        buffer->name, ConstantSource{buffer->evaluation, buffer->variant});
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
