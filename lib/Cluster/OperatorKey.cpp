// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Cluster/OperatorCost.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace fcdp;

/// Prints types as the runtime spells them, and with MLIR's name if the runtime
/// has no spelling for one.
static void printElement(Type type, llvm::raw_ostream &stream) {
  if (type.isSignlessInteger(1))
    stream << "bool";
  else if (type.isUnsignedInteger(8))
    stream << "u8";
  else
    stream << type;
}

static void printTensor(Value value, llvm::raw_ostream &stream) {
  auto type = cast<RankedTensorType>(value.getType());
  printElement(type.getElementType(), stream);
  stream << '[';
  llvm::interleave(type.getShape(), stream, ",");
  stream << ']';
}

/// Returns the operands in the order of the arguments, as the runtime does.
static llvm::SmallVector<Value> getOperands(aten::CallOp call) {
  llvm::SmallVector<Value> operands;
  for (Attribute argument : call.getArgs()) {
    if (auto one = dyn_cast<aten::OperandAttr>(argument))
      operands.push_back(call.getOperand(one.getIndex()));
    if (auto many = dyn_cast<aten::OperandListAttr>(argument))
      for (int64_t index : many.getIndices())
        if (index >= 0)
          operands.push_back(call.getOperand(index));
  }
  return operands;
}

std::string fcdp::keyOfCall(aten::CallOp call) {
  std::string key;
  llvm::raw_string_ostream stream(key);
  auto print = [&](Value value) { printTensor(value, stream); };
  stream << call.getCallee() << '(';
  llvm::interleaveComma(getOperands(call), stream, print);
  stream << ')';
  llvm::StringRef separator = " -> ";
  for (Value result : call.getResults()) {
    if (result.use_empty()) // the runtime does not keep it
      continue;
    stream << separator;
    print(result);
    separator = ", ";
  }
  return key;
}
