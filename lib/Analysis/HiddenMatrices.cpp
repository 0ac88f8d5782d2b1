// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Analysis/HiddenMatrices.h"

#include "dialects/Aten/Aten.h"

using namespace mlir;
using namespace fcdp;

namespace {
/// The uses of matrices by the operations that the loss depends on.
class MatrixUses {
public:
  explicit MatrixUses(func::FuncOp step);

  bool isEmbedding(StringAttr matrix) const {
    return embeddings.contains(matrix);
  }
  bool isHead(StringAttr matrix) const {
    return uses.contains(matrix) && !inner.contains(matrix);
  }

private:
  void collectForward(func::FuncOp step);
  void follow(Operation *op);
  void findInner(func::FuncOp step);
  /// Returns the only matrix that `value` is computed from, or null.
  StringAttr lookup(Value value) const { return alone.lookup(value); }

  llvm::DenseSet<Operation *> forward;
  llvm::DenseMap<Value, StringAttr> alone;
  /// The matrices that an operation joins with other values.
  llvm::DenseMap<Operation *, SmallVector<StringAttr, 1>> joined;
  llvm::DenseSet<StringAttr> uses, embeddings, inner;
};
} // namespace

MatrixUses::MatrixUses(func::FuncOp step) {
  collectForward(step);
  for (Operation &op : step.front())
    if (forward.contains(&op))
      follow(&op);
  findInner(step);
}

/// Collects the operations that the loss depends on.
void MatrixUses::collectForward(func::FuncOp step) {
  for (Operation &op : llvm::reverse(step.front())) {
    bool isNeeded =
        isa<LossOp>(op) || llvm::any_of(op.getUsers(), [&](Operation *user) {
          return forward.contains(user);
        });
    if (isNeeded)
      forward.insert(&op);
  }
}

static bool isLookup(Operation *op) {
  auto call = dyn_cast<aten::CallOp>(op);
  return call && (call.getCallee() == "aten.embedding.default" ||
                  call.getCallee().starts_with("aten._embedding_bag"));
}

void MatrixUses::follow(Operation *op) {
  if (auto read = dyn_cast<ReadParameterOp>(op)) {
    auto type = cast<RankedTensorType>(read.getResult().getType());
    // The bytes of a packed matrix are unpacked to it.
    if (type.getRank() == 2 || type.getElementType().isUnsignedInteger(8))
      alone[read.getResult()] = read.getSourceAttr().getAttr();
    return;
  }
  SmallVector<StringAttr, 1> matrices;
  for (Value operand : op->getOperands())
    if (StringAttr matrix = lookup(operand))
      if (!llvm::is_contained(matrices, matrix))
        matrices.push_back(matrix);
  bool isAlone = matrices.size() == 1 &&
                 llvm::all_of(op->getOperands(), [&](Value operand) {
                   return lookup(operand) == matrices[0];
                 });
  if (isAlone && !isa<LossOp>(op)) {
    for (Value result : op->getResults())
      alone[result] = matrices[0];
    return;
  }
  uses.insert(matrices.begin(), matrices.end());
  if (isLookup(op))
    embeddings.insert(matrices.begin(), matrices.end());
  if (!matrices.empty())
    joined[op] = std::move(matrices);
}

/// Goes backwards from the loss, with the matrices between each result and the
/// loss: none, one, or more than one.
void MatrixUses::findInner(func::FuncOp step) {
  struct Reached {
    StringAttr one;
    bool more = false;
    void add(StringAttr matrix) {
      more |= one && matrix != one;
      one = matrix;
    }
  };
  llvm::DenseMap<Operation *, Reached> reached;
  for (Operation &op : llvm::reverse(step.front())) {
    if (!forward.contains(&op))
      continue;
    Reached behind;
    for (Operation *user : op.getUsers()) {
      if (!forward.contains(user))
        continue;
      Reached next = reached.lookup(user);
      if (next.one)
        behind.add(next.one);
      behind.more |= next.more;
    }
    auto own = joined.find(&op);
    if (own != joined.end()) {
      for (StringAttr matrix : own->second)
        if (behind.more || (behind.one && behind.one != matrix))
          inner.insert(matrix);
      for (StringAttr matrix : own->second)
        behind.add(matrix);
    }
    reached[&op] = behind;
  }
}

llvm::DenseSet<StringAttr> fcdp::findHiddenMatrices(func::FuncOp step) {
  MatrixUses uses(step);
  llvm::DenseSet<StringAttr> hidden;
  for (auto parameter :
       step->getParentOfType<ModuleOp>().getOps<ParameterOp>()) {
    StringAttr name = parameter.getSymNameAttr();
    RankedTensorType type = parameter.getTensorType();
    if (type.getRank() == 2 && type.getNumElements() != 0 &&
        !uses.isEmbedding(name) && !uses.isHead(name))
      hidden.insert(name);
  }
  return hidden;
}
