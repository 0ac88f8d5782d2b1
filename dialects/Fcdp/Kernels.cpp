// SPDX-License-Identifier: Apache-2.0
//
// Kernels that the compiler writes, and their calls.

#include "dialects/Fcdp/Kernels.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace fcdp;

StringRef KernelOp::getShortName() {
  return getSymName().drop_front(kKernelSymbol.size());
}

TypeRange KernelOp::getResultElements() {
  return getBody().front().getTerminator()->getOperandTypes();
}

static bool isKernelName(StringRef name) {
  return name.consume_front(kKernelSymbol) && !name.empty() &&
         llvm::all_of(name,
                      [](char c) { return llvm::isAlnum(c) || c == '_'; });
}

/// Returns what is wrong with an operation of a kernel's body, or an empty
/// text.
static StringRef findKernelOpProblem(Operation &op) {
  if (isa<arith::ExtFOp>(op))
    return op.getOperand(0).getType().isBF16() &&
                   op.getResult(0).getType().isF32()
               ? ""
               : "expected a conversion from bf16 to f32";
  if (auto truncate = dyn_cast<arith::TruncFOp>(op))
    return op.getOperand(0).getType().isF32() &&
                   op.getResult(0).getType().isBF16() &&
                   !truncate.getRoundingmode()
               ? ""
               : "expected a conversion from f32 to bf16, rounded to nearest";
  if (!isa<arith::ConstantOp, arith::AddFOp, arith::SubFOp, arith::MulFOp,
           arith::DivFOp, arith::NegFOp, math::FmaOp, math::SqrtOp,
           math::ExpOp>(op))
    return "may not be in the body of a kernel";
  if (!op.getResult(0).getType().isF32())
    return "expected arithmetic in f32";
  auto fast = dyn_cast<arith::ArithFastMathInterface>(op);
  if (fast && fast.getFastMathFlagsAttr() &&
      fast.getFastMathFlagsAttr().getValue() != arith::FastMathFlags::none)
    return "expected no flags of fast math";
  return "";
}

LogicalResult KernelOp::verify() {
  if (!isKernelName(getSymName())) // C1
    return emitOpError("expected a name 'kernel.NAME' of letters, digits and "
                       "'_', got '")
           << getSymName() << "'";
  Block &block = getBody().front();
  auto maps = getMaps().getAsRange<KernelMapAttr>();
  if (getMaps().size() != block.getNumArguments() || // C2
      !llvm::all_of(block.getArgumentTypes(), isKernelElement))
    return emitOpError("expected an argument of f32 or bf16 for each of ")
           << getMaps().size() << " maps, got " << block.getArgumentTypes();
  if (llvm::none_of(maps, [](KernelMapAttr map) { // C2
        return map.getValue() == KernelMap::identity;
      }))
    return emitOpError("expected an operand with the map 'identity'");
  auto yield =
      dyn_cast_or_null<YieldOp>(block.empty() ? nullptr : &block.back());
  if (!yield) // C3
    return emitOpError("expected a body that ends with fcdp.yield");
  for (Operation &op : block.without_terminator())
    if (StringRef problem = findKernelOpProblem(op); !problem.empty()) // C3
      return op.emitOpError(problem);
  size_t tensors = block.getNumArguments() + yield->getNumOperands();
  if (tensors > kMostKernelTensors) // C4
    return emitOpError("expected at most ")
           << kMostKernelTensors << " operands and results, got " << tensors;
  if (size_t ops = block.getOperations().size() - 1; ops > kMostKernelOps) // C4
    return emitOpError("expected at most ")
           << kMostKernelOps << " operations in the body, got " << ops;
  return success();
}

LogicalResult YieldOp::verify() {
  if (getNumOperands() == 0) // C1
    return emitOpError("expected at least one value");
  return success();
}

static RankedTensorType getTensor(Value value) {
  return cast<RankedTensorType>(value.getType());
}

namespace {
/// Checks the operands and results of one call.
class KernelCallChecker {
public:
  KernelCallChecker(aten::CallOp call, KernelOp kernel)
      : call(call), kernel(kernel), body(kernel.getBody().front()) {}

  LogicalResult check();

private:
  LogicalResult checkOperand(size_t index);
  LogicalResult checkResults();
  LogicalResult checkRows();

  aten::CallOp call;
  KernelOp kernel;
  Block &body;
  RankedTensorType whole;
  std::optional<int64_t> width, rows;
};
} // namespace

static KernelMap getMap(KernelOp kernel, size_t index) {
  return cast<KernelMapAttr>(kernel.getMaps()[index]).getValue();
}

LogicalResult KernelCallChecker::checkOperand(size_t index) {
  RankedTensorType type = getTensor(call.getOperand(index));
  Type element = body.getArgument(index).getType();
  if (type.getElementType() != element || !hasByteSize(type))
    return call.emitOpError("expected operand ")
           << index << " to be a static tensor of " << element << ", got "
           << type;
  KernelMap map = getMap(kernel, index);
  auto expect = [&](int64_t elements) -> LogicalResult {
    if (type.getNumElements() == elements)
      return success();
    return call.emitOpError("expected operand ")
           << index << " with the map '" << stringifyKernelMap(map)
           << "' to have " << elements << " elements, got " << type;
  };
  switch (map) {
  case KernelMap::identity:
    return expect(whole.getNumElements());
  case KernelMap::scalar:
    return expect(1);
  case KernelMap::row:
    if (!width)
      width = type.getNumElements();
    return expect(*width);
  case KernelMap::column:
    if (!rows)
      rows = type.getNumElements();
    return expect(*rows);
  }
  llvm_unreachable("unknown map of a kernel");
}

LogicalResult KernelCallChecker::checkResults() {
  TypeRange elements = kernel.getResultElements();
  if (call.getNumResults() != elements.size())
    return call.emitOpError("expected ")
           << elements.size() << " results, got " << call.getNumResults();
  for (auto [value, element] : llvm::zip_equal(call.getResults(), elements))
    if (getTensor(value) != whole.clone(element))
      return call.emitOpError("expected a result of type ")
             << whole.clone(element) << ", got " << value.getType();
  return success();
}

/// Checks that rows fit.
LogicalResult KernelCallChecker::checkRows() {
  int64_t elements = whole.getNumElements();
  if (!width && !rows)
    return success();
  int64_t known = width ? *width : *rows;
  bool fits = width && rows ? *width * *rows == elements
              : known == 0  ? elements == 0
                            : elements % known == 0;
  if (fits)
    return success();
  return call.emitOpError("expected rows of ")
         << known << " elements in " << whole;
}

LogicalResult KernelCallChecker::check() {
  auto list =
      dyn_cast_or_null<aten::OperandListAttr>(call.getArgument("operands"));
  if (!list || call.getArgs().size() != 1 ||
      list.getIndices().size() != body.getNumArguments() ||
      call->getNumOperands() != body.getNumArguments())
    return call.emitOpError("expected a list 'operands' of ")
           << body.getNumArguments() << " tensors";
  for (size_t i = 0; i < body.getNumArguments(); ++i)
    if (getMap(kernel, i) == KernelMap::identity) {
      whole = getTensor(call.getOperand(i));
      break;
    }
  if (!hasByteSize(whole))
    return call.emitOpError("expected static tensors, got ") << whole;
  for (size_t i = 0; i < body.getNumArguments(); ++i)
    if (failed(checkOperand(i)))
      return failure();
  return success(succeeded(checkResults()) && succeeded(checkRows()));
}

LogicalResult fcdp::verifyKernelCalls(ModuleOp module) {
  SymbolTable symbols(module);
  for (auto function : module.getOps<func::FuncOp>())
    for (auto call : function.getOps<aten::CallOp>()) {
      if (!isKernelCall(call))
        continue;
      auto kernel = symbols.lookup<KernelOp>(getKernelSymbol(call));
      if (!kernel)
        return call.emitOpError("expected a kernel @")
               << getKernelSymbol(call) << " in the module";
      if (failed(KernelCallChecker(call, kernel).check())) // C5
        return failure();
    }
  return success();
}
