// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Planning/Activations/StoredActivations.h"

#include "dialects/Aten/Aten.h"
#include "fcdp/Analysis/Aliases.h"
#include "fcdp/Analysis/Identities.h"
#include "fcdp/Planning/Memory/Activations.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace fcdp;

/// Returns the operation that computes the loss, which ends the forward pass.
static Operation *findForwardEnd(func::FuncOp function) {
  auto losses = function.getOps<LossOp>();
  return losses.empty() ? nullptr
                        : (*losses.begin()).getValue().getDefiningOp();
}

/// Returns whether the call computes from parameters alone.
static bool readsParametersOnly(Operation *call) {
  ArrayAttr parameters = findParameterOperands(call);
  return call->getNumOperands() > 0 && parameters &&
         llvm::all_of(parameters, llvm::IsaPred<FlatSymbolRefAttr>);
}

StoredActivations::StoredActivations(func::FuncOp function,
                                     const CostModel &model)
    : function(function), model(model) {
  Operation *end = findForwardEnd(function);
  if (!end)
    return;
  for (Operation &op : function.front()) {
    positions[&op] = ops.size();
    ops.push_back(&op);
    Cost cost =
        chooseStream(&op) == Stream::compute ? model.costOf(&op) : Cost();
    problem.seconds.push_back(cost.getTotal());
  }
  for (Operation *op : ops) {
    if (op == end)
      break;
    if (isa<aten::CallOp>(op) && !mayAlias(op) && !readsParametersOnly(op))
      for (OpResult result : op->getResults())
        collect(result, end);
  }
}

void StoredActivations::collect(OpResult value, Operation *end) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  if (!type || !hasByteSize(type) || byteSize(type) == 0)
    return;
  SavedValue saved{value, {}};
  size_t made = positions.lookup(value.getOwner()), last = made,
         first = ops.size();
  SmallVector<Value> worklist{value};
  while (!worklist.empty())
    for (OpOperand &use : worklist.pop_back_val().getUses()) {
      Operation *user = use.getOwner();
      if (isa<StoreValueOp>(user))
        return;
      if (end->isBeforeInBlock(user)) {
        if (!isa<aten::CallOp>(user))
          return;
        first = std::min(first, positions.lookup(user));
        saved.uses.push_back(&use);
        continue;
      }
      if (isView(user))
        llvm::append_range(worklist, user->getResults());
      else if (mayAlias(user))
        return;
      last = std::max(last, positions.lookup(user));
    }
  if (saved.uses.empty())
    return;
  double bytes = byteSize(type);
  Cost store = model.costOfStore(bytes), load = model.costOfLoad(bytes);
  values.push_back(std::move(saved));
  large.push_back(store.latency <= store.seconds &&
                  load.latency <= load.seconds);
  problem.values.push_back(
      {byteSize(type), made, last, first, store.getTotal(), load.getTotal()});
}

bool StoredActivations::isGiven(size_t value) const {
  return getOnHost(OpResult(values[value].value).getOwner()).has_value();
}

SmallVector<bool> StoredActivations::findChosen() const {
  SmallVector<bool> chosen;
  for (const SavedValue &saved : values) {
    OpResult value = saved.value;
    std::optional<ArrayRef<int64_t>> numbers = getOnHost(value.getOwner());
    chosen.push_back(numbers &&
                     llvm::is_contained(*numbers, value.getResultNumber()));
  }
  return chosen;
}

SmallVector<bool> StoredActivations::findMovable() const {
  SmallVector<bool> movable;
  for (size_t i = 0; i < values.size(); ++i)
    movable.push_back(large[i] && !isGiven(i));
  return movable;
}

void StoredActivations::write(ArrayRef<bool> chosen) const {
  llvm::MapVector<Operation *, SmallVector<int64_t>> numbers;
  for (size_t i = 0; i < values.size(); ++i)
    if (chosen[i] && !isGiven(i)) {
      OpResult value = values[i].value;
      numbers[value.getOwner()].push_back(value.getResultNumber());
    }
  for (auto &[call, results] : numbers)
    setOnHost(call, results);
}

void StoredActivations::erase(ArrayRef<bool> chosen) const {
  for (size_t i = 0; i < values.size(); ++i)
    if (chosen[i]) {
      OpResult value = values[i].value;
      removeOnHost(value.getOwner());
    }
}

/// Lets the uses of a saved value read `loaded`. Views of the value are made
/// again from it, each right before its first use: compute waits for the load
/// there.
void StoredActivations::replace(const SavedValue &saved, Value loaded) {
  IRMapping mapping;
  mapping.map(saved.value, loaded);
  OpBuilder builder(function.getContext());
  SmallVector<OpOperand *> uses(saved.uses);
  llvm::sort(uses, [&](OpOperand *a, OpOperand *b) {
    return positions.lookup(a->getOwner()) < positions.lookup(b->getOwner());
  });
  SmallVector<Operation *> old;
  auto remake = [&](auto &&remake, Value view) -> Value {
    if (Value known = mapping.lookupOrNull(view))
      return known;
    Operation *op = view.getDefiningOp();
    remake(remake, op->getOperand(0));
    builder.clone(*op, mapping);
    old.push_back(op);
    return mapping.lookup(view);
  };
  for (OpOperand *use : uses) {
    builder.setInsertionPoint(use->getOwner());
    use->set(remake(remake, use->get()));
  }
  // The last one first, because it reads the others.
  for (Operation *view : llvm::reverse(old))
    if (view->use_empty())
      view->erase();
}

void StoredActivations::apply(const ActivationSolution &solution) {
  OpBuilder builder(function.getContext());
  // All places are operations of the problem, so all operations are made before
  // any is erased.
  SmallVector<LoadValueOp> loads(values.size());
  for (auto [i, move] : llvm::enumerate(solution.moves)) {
    if (!move.isStored)
      continue;
    OpResult value = values[i].value;
    builder.setInsertionPointAfter(value.getOwner());
    auto store = StoreValueOp::create(
        builder, value.getLoc(),
        StoredType::get(builder.getContext(),
                        cast<RankedTensorType>(value.getType())),
        value, StreamAttr(), BufferAttr());
    builder.setInsertionPoint(ops[move.dropped]);
    DropValueOp::create(builder, value.getLoc(), value, store);
    builder.setInsertionPoint(ops[move.loaded]);
    loads[i] = LoadValueOp::create(builder, value.getLoc(), value.getType(),
                                   store, StreamAttr(), BufferAttr());
  }
  for (auto [saved, load] : llvm::zip_equal(values, loads))
    if (load)
      replace(saved, load.getResult());
}

AllOnHost::AllOnHost(ModuleOp module, const CostModel &model) {
  for (auto function : module.getOps<func::FuncOp>()) {
    StoredActivations &one = functions.emplace_back(function, model);
    SmallVector<bool> movable = one.findMovable();
    int64_t sum = 0;
    for (auto [moves, value] :
         llvm::zip_equal(movable, one.getProblem().values))
      sum += moves ? value.bytes : 0;
    bytes = std::max(bytes, sum);
    one.write(movable);
    written.push_back(std::move(movable));
  }
}

AllOnHost::~AllOnHost() {
  for (auto [one, chosen] : llvm::zip_equal(functions, written))
    one.erase(chosen);
}

std::vector<int64_t> fcdp::measureKeptActivations(func::FuncOp function,
                                                  const CostModel &model) {
  std::vector<int64_t> bytes = measureActivations(function);
  bool isChosen = llvm::any_of(function.getOps<aten::CallOp>(), [](auto call) {
    std::optional<ArrayRef<int64_t>> results = getOnHost(call);
    return results && !results->empty();
  });
  if (!isChosen)
    return bytes;
  StoredActivations activations(function, model);
  const ActivationProblem &problem = activations.getProblem();
  ActivationSolution solution = placeMoves(problem, activations.findChosen());
  for (auto [move, value] : llvm::zip_equal(solution.moves, problem.values))
    if (move.isStored)
      for (size_t i = move.dropped; i < move.loaded; ++i)
        bytes[i] -= value.bytes;
  return bytes;
}
