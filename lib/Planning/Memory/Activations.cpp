// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Planning/Memory/Activations.h"

#include "dialects/Aten/Aten.h"
#include "dialects/Aten/OpTable.h"
#include "dialects/Fcdp/Fcdp.h"
#include "fcdp/Analysis/InPlaceGradients.h"
#include "llvm/ADT/STLExtras.h"

#include <numeric>

using namespace mlir;
using namespace fcdp;

namespace {
/// The positions from which on the memory of values is no longer in use.
class Ends {
public:
  explicit Ends(func::FuncOp function);

  int64_t positionOf(Operation *op) const { return position.lookup(op); }
  /// Returns the position after the last use of any value that `value` may
  /// share memory with.
  int64_t lookup(Value value) const { return ends.lookup(value); }

private:
  int64_t findEnd(Value value) const;

  llvm::DenseMap<Operation *, int64_t> position;
  llvm::DenseMap<Value, int64_t> ends;
};
} // namespace

/// Returns whether a result of `use`'s owner may share memory with the used
/// value.
static bool passesOn(OpOperand &use) {
  auto call = dyn_cast<aten::CallOp>(use.getOwner());
  if (!call)
    return false;
  aten::Aliasing aliasing = aten::lookupOp(call.getCallee()).aliasing;
  return aliasing == aten::Aliasing::Unknown ||
         (aliasing == aten::Aliasing::View && use.getOperandNumber() == 0);
}

int64_t Ends::findEnd(Value value) const {
  int64_t end = positionOf(value.getDefiningOp()) + 1;
  for (OpOperand &use : value.getUses()) {
    // In an imported step, gradients are listed at its end.
    if (isa<GradientOp>(use.getOwner()))
      continue;
    end = std::max(end, positionOf(use.getOwner()) + 1);
    if (passesOn(use))
      for (Value result : use.getOwner()->getResults())
        end = std::max(end, lookup(result));
  }
  return end;
}

Ends::Ends(func::FuncOp function) {
  int64_t count = 0;
  for (Operation &op : function.front())
    position[&op] = count++;
  // Users follow their operands.
  for (Operation &op : llvm::reverse(function.front()))
    if (isa<aten::CallOp>(op))
      for (Value result : op.getResults())
        ends[result] = findEnd(result);
}

/// Returns the bytes that the optimizer needs to cast the gradient from f32 to
/// the type of the parameters.
static int64_t castBytes(ShardUpdateOp update) {
  auto module = update->getParentOfType<ModuleOp>();
  auto bucket = SymbolTable::lookupNearestSymbolFrom<BucketOp>(
      update, update.getTargetAttr());
  MeshOp mesh = getMesh(module);
  if (!bucket || !mesh || getOptimizerType(bucket).isF32())
    return 0;
  if (update.isOfPiece())
    return static_cast<int64_t>(*update.getEnd() - *update.getBegin()) *
           elementBytes(bucket.getStorage());
  return static_cast<int64_t>(bucket.getElements()) / mesh.getWorldSize() *
         elementBytes(bucket.getStorage());
}

std::vector<Activation> fcdp::findActivations(func::FuncOp function) {
  std::vector<Activation> activations;
  Ends ends(function);
  auto add = [&](Operation *op, int64_t bytes, int64_t end) {
    if (bytes != 0)
      activations.push_back({op, bytes, ends.positionOf(op), end});
  };
  llvm::DenseMap<Operation *, PackOp> inPlace =
      collectInPlaceProducers(function);
  for (Operation &op : function.front()) {
    if (auto update = dyn_cast<ShardUpdateOp>(op))
      for (int64_t bytes : {castBytes(update), update.getScratchBytes()})
        add(&op, bytes, ends.positionOf(&op) + 1);
    auto call = dyn_cast<aten::CallOp>(op);
    if (!call || inPlace.contains(call) ||
        aten::lookupOp(call.getCallee()).aliasing == aten::Aliasing::View)
      continue;
    for (Value result : call.getResults())
      if (auto type = dyn_cast<RankedTensorType>(result.getType());
          type && hasByteSize(type))
        add(&op, byteSize(type), ends.lookup(result));
  }
  return activations;
}

std::vector<int64_t> fcdp::measureActivations(func::FuncOp function) {
  // The increase of the bytes in use at each position, and at the end.
  std::vector<int64_t> bytes(llvm::range_size(function.front()) + 1);
  for (const Activation &activation : findActivations(function)) {
    bytes[activation.begin] += activation.bytes;
    bytes[activation.end] -= activation.bytes;
  }
  std::partial_sum(bytes.begin(), bytes.end(), bytes.begin());
  bytes.pop_back();
  return bytes;
}
