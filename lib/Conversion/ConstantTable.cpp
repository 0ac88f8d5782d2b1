// SPDX-License-Identifier: Apache-2.0

#include "ConstantTable.h"

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
    // The alignment of bucket members, because kernels may give other bits at
    // other alignments.
    int64_t offset = llvm::alignTo(table.bytes.size(), kMemberAlignment);
    table.offsets[buffer] = offset;
    table.bytes.resize(offset);
    table.bytes.append(value->begin(), value->end());
  }
  return table;
}
