// SPDX-License-Identifier: Apache-2.0

#include "ConstantTable.h"

#include "fcdp/Import/Pt2Tensors.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace fcdp;

std::optional<int64_t> ConstantTable::lookup(BufferOp buffer) const {
  auto it = offsets.find(buffer);
  if (it == offsets.end())
    return std::nullopt;
  return it->second;
}

FailureOr<ConstantTable> ConstantTable::read(ModuleOp module,
                                             TensorReader readTensor) {
  ConstantTable table;
  for (auto buffer : module.getOps<BufferOp>()) {
    if (buffer.getPersistent())
      continue;
    llvm::Expected<std::vector<char>> value = readTensor(buffer.getName());
    if (!value)
      return buffer.emitOpError("cannot read its value: ")
             << llvm::toString(value.takeError());
    int64_t expected = byteSize(cast<RankedTensorType>(buffer.getType()));
    if (value->empty() && expected != 0) {
      buffer.emitWarning("the archive has no weights: '")
          << buffer.getName() << "' has no value, and the step cannot be run";
      continue;
    }
    if (static_cast<int64_t>(value->size()) != expected)
      return buffer.emitOpError("expected a value of ")
             << expected << " bytes, got " << value->size();
    // As the members of buckets: kernels give other bits at other alignments.
    int64_t offset = llvm::alignTo(table.bytes.size(), kMemberAlignment);
    table.offsets[buffer] = offset;
    table.bytes.resize(offset);
    table.bytes.append(value->begin(), value->end());
  }
  return table;
}

ConstantReader::ConstantReader(StringRef archive) : path(archive) {}
ConstantReader::~ConstantReader() = default;

llvm::Expected<std::vector<char>> ConstantReader::operator()(StringRef name) {
  if (!tensors) {
    if (path.empty())
      return llvm::createStringError("the module names no archive in '" +
                                     kArchiveAttr +
                                     "', and no other archive is given");
    llvm::Expected<Pt2Tensors> opened = Pt2Tensors::open(path);
    if (!opened)
      return llvm::createStringError("'" + path +
                                     "': " + toString(opened.takeError()));
    tensors = std::make_unique<Pt2Tensors>(std::move(*opened));
  }
  return tensors->readTensor(name);
}

llvm::Expected<std::string> fcdp::readConstants(const plan::PlanT &plan,
                                                TensorReader readTensor) {
  std::string bytes;
  for (const auto &buffer : plan.buffers) {
    if (!buffer->constantOffset)
      continue;
    llvm::Expected<std::vector<char>> value = readTensor(buffer->name);
    if (!value)
      return llvm::createStringError("cannot read the value of buffer '" +
                                     buffer->name +
                                     "': " + toString(value.takeError()));
    // In the plan's order, which is that of the offsets.
    if (*buffer->constantOffset !=
        llvm::alignTo(bytes.size(), kMemberAlignment))
      return llvm::createStringError("expected buffers in the order of their "
                                     "values, got '" +
                                     buffer->name + "' at byte " +
                                     llvm::Twine(*buffer->constantOffset));
    bytes.resize(*buffer->constantOffset);
    bytes.append(value->begin(), value->end());
  }
  if (hashBytes(bytes) != plan.constantsHash)
    return llvm::createStringError("the archive has other constants than the "
                                   "one that the plan was made from");
  return bytes;
}
