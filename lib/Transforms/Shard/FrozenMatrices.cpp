// SPDX-License-Identifier: Apache-2.0

#include "Shard/FrozenMatrices.h"

#include "dialects/Aten/Aten.h"
#include "dialects/Aten/OpTable.h"
#include "fcdp/Analysis/Casts.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace fcdp;

using aten::CallOp;

/// Returns the name of the argument that `operand` is, or nothing if it is in a
/// list.
static StringRef getArgumentName(OpOperand &operand) {
  auto call = cast<CallOp>(operand.getOwner());
  for (auto [name, arg] : llvm::zip_equal(
           call.getArgNames().getAsRange<StringAttr>(), call.getArgs()))
    if (auto index = dyn_cast<aten::OperandAttr>(arg);
        index && index.getIndex() == operand.getOperandNumber())
      return name.getValue();
  return {};
}

/// Returns whether the operand is a factor of a product of two matrices.
static bool isFactor(OpOperand &operand) {
  auto call = dyn_cast<CallOp>(operand.getOwner());
  if (!call)
    return false;
  StringRef name = getArgumentName(operand);
  return llvm::StringSwitch<bool>(call.getCallee())
      .Case("aten.mm.default", name == "self" || name == "mat2")
      .Case("aten.addmm.default", name == "mat1" || name == "mat2")
      .Case("aten.linear.default", name == "weight")
      .Case("aten.matmul.default", name == "self" || name == "other")
      .Default(false);
}

/// Returns whether the operand is the factor that rows are multiplied by.
static bool isRightFactor(OpOperand &operand) {
  StringRef name = getArgumentName(operand);
  return name == "mat2" || name == "other" || name == "weight";
}

static bool isTranspose(Operation *op) {
  StringRef callee = cast<CallOp>(op).getCallee();
  return callee == "aten.t.default" || callee == "aten.transpose.int" ||
         callee == "aten.permute.default" || callee == "aten.numpy_T.default";
}

/// Returns whether `use` multiplies rows by the matrix itself. aten.linear
/// transposes its weight.
static bool multipliesByItself(const MatrixUse &use) {
  size_t transposes = llvm::count_if(use.views, isTranspose);
  if (cast<CallOp>(use.operand->getOwner()).getCallee() ==
      "aten.linear.default")
    ++transposes;
  return (transposes % 2 == 0) == isRightFactor(*use.operand);
}

static bool isProduct(Operation *op) {
  auto call = dyn_cast<CallOp>(op);
  if (!call)
    return false;
  switch (aten::lookupOp(call.getCallee()).work) {
  case aten::Work::MatMul:
  case aten::Work::GroupedMatMul:
  case aten::Work::Convolution:
  case aten::Work::ConvolutionBackward:
  case aten::Work::Attention:
  case aten::Work::AttentionBackward:
  case aten::Work::ChunkedLoss:
    return true;
  default:
    return false;
  }
}

/// Adds the products of which the function's loss is a function that has no
/// product.
static void collectLastProducts(func::FuncOp function,
                                llvm::DenseSet<Operation *> &products) {
  SmallVector<Value> values;
  for (auto loss : function.getOps<LossOp>())
    values.push_back(loss.getValue());
  llvm::DenseSet<Operation *> seen;
  while (!values.empty()) {
    Operation *op = values.pop_back_val().getDefiningOp();
    if (!op || !seen.insert(op).second)
      continue;
    if (isProduct(op))
      products.insert(op);
    else
      llvm::append_range(values, op->getOperands());
  }
}

static bool isPackable(ParameterOp parameter) {
  RankedTensorType type = parameter.getTensorType();
  Type element = type.getElementType();
  return !parameter.getTrainable() && type.getRank() == 2 &&
         type.getNumElements() > 0 &&
         (element.isF32() || element.isBF16() || element.isF16());
}

/// Collects the products that read `value`. Another user is a problem.
static void collectUses(Value value, FrozenMatrix &matrix,
                        SmallVector<Operation *, 4> &views) {
  for (OpOperand &operand : value.getUses()) {
    Operation *user = operand.getOwner();
    if (isWholeView(user) || getCastType(user)) {
      views.push_back(user);
      collectUses(user->getResult(0), matrix, views);
      views.pop_back();
    } else if (isFactor(operand)) {
      matrix.uses.push_back({&operand, views});
    } else {
      auto call = dyn_cast<CallOp>(user);
      matrix.problem =
          ("'" + (call ? call.getCallee() : user->getName().getStringRef()) +
           "' reads it, which is no product of matrices")
              .str();
    }
  }
}

/// Completes what the uses of a matrix say about it.
static void judge(FrozenMatrix &matrix,
                  const llvm::DenseSet<Operation *> &lastProducts) {
  if (matrix.parameter.getNames().size() > 1)
    matrix.problem = "it is tied to another parameter";
  else if (matrix.uses.empty() && matrix.problem.empty())
    matrix.problem = "nothing reads it";
  if (!matrix.problem.empty())
    return;
  matrix.isHead = llvm::any_of(matrix.uses, [&](const MatrixUse &use) {
    return lastProducts.contains(use.operand->getOwner());
  });
  // The forward pass comes first.
  const MatrixUse *first = &matrix.uses.front();
  for (const MatrixUse &use : matrix.uses)
    if (use.operand->getOwner()->getBlock() ==
            first->operand->getOwner()->getBlock() &&
        use.operand->getOwner()->isBeforeInBlock(first->operand->getOwner()))
      first = &use;
  matrix.isTransposed = multipliesByItself(*first);
}

SmallVector<FrozenMatrix> fcdp::findFrozenMatrices(ModuleOp module) {
  llvm::MapVector<StringAttr, FrozenMatrix> matrices;
  for (auto parameter : module.getOps<ParameterOp>())
    if (isPackable(parameter))
      matrices[parameter.getSymNameAttr()].parameter = parameter;
  llvm::DenseSet<Operation *> lastProducts;
  for (auto function : module.getOps<func::FuncOp>()) {
    collectLastProducts(function, lastProducts);
    for (auto read : function.getOps<ReadParameterOp>()) {
      auto *found = matrices.find(read.getSourceAttr().getAttr());
      if (found == matrices.end())
        continue;
      found->second.reads.push_back(read);
      SmallVector<Operation *, 4> views;
      collectUses(read.getResult(), found->second, views);
    }
  }
  SmallVector<FrozenMatrix> all;
  for (auto &[name, matrix] : matrices) {
    judge(matrix, lastProducts);
    all.push_back(std::move(matrix));
  }
  return all;
}
