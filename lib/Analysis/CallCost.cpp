// SPDX-License-Identifier: Apache-2.0

#include "CallCost.h"

#include "dialects/Fcdp/Fcdp.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace fcdp;

/// An A100's 312 TFLOP/s in bf16 over its 2.0 TB/s of memory bandwidth
/// (NVIDIA's data sheet of the 80 GB model).
static constexpr double kFlopsPerByte = 156;

static RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

static double countElements(Value value) {
  return static_cast<double>(typeOf(value).getNumElements());
}

/// Size of dimension `index`, from the end if negative; 1 if there is none.
static double sizeOf(Value value, int64_t index) {
  RankedTensorType type = typeOf(value);
  if (index < 0)
    index += type.getRank();
  return index < 0 || index >= type.getRank()
             ? 1
             : static_cast<double>(type.getDimSize(index));
}

namespace {
enum class Kind { Other, Product, ProductAndSum, Convolution, Attention };
} // namespace

static Kind classify(StringRef callee) {
  return llvm::StringSwitch<Kind>(callee.rsplit('.').first)
      .Cases({"aten.mm", "aten.bmm"}, Kind::Product)
      .Cases({"aten.addmm", "aten.baddbmm"}, Kind::ProductAndSum)
      .Case("aten.convolution", Kind::Convolution)
      .Case("aten._scaled_dot_product_flash_attention_for_cpu", Kind::Attention)
      .Default(Kind::Other);
}

/// Two for each multiplication and addition; what is bound by memory has none.
static double countFlops(aten::CallOp call) {
  auto operands = call.getOperands();
  auto results = call.getResults();
  if (operands.size() < 2 || results.empty())
    return 0;
  switch (classify(call.getCallee())) {
  case Kind::Other:
    return 0;
  case Kind::Product:
    return 2 * countElements(results[0]) * sizeOf(operands[0], -1);
  case Kind::ProductAndSum:
    return 2 * countElements(results[0]) * sizeOf(operands[1], -1);
  case Kind::Convolution:
    return 2 * countElements(results[0]) * countElements(operands[1]) /
           std::max(sizeOf(operands[1], 0), 1.0);
  case Kind::Attention: // scores, and their product with the values
    return 4 * countElements(operands[0]) * sizeOf(operands[1], -2);
  }
  llvm_unreachable("all kinds are above");
}

double fcdp::estimateCost(aten::CallOp call) {
  double bytes = 0;
  for (auto values :
       {ValueRange(call.getOperands()), ValueRange(call->getResults())})
    for (Value value : values) {
      if (!hasByteSize(typeOf(value)))
        return 0;
      bytes += static_cast<double>(byteSize(typeOf(value)));
    }
  return bytes + countFlops(call) / kFlopsPerByte;
}
