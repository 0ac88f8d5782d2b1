// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Planning/Recompute/Rematerialization.h"

#include "Units.h"
#include "fcdp/Analysis/Aliases.h"
#include "fcdp/Analysis/Casts.h"
#include "fcdp/Cluster/OperatorCost.h"

using namespace mlir;
using namespace fcdp;
using Choice = RecomputationProblem::Choice;

/// The floating-point operations that the default device computes while it
/// moves a byte: an A100's 312 TFLOP/s in bf16 over its 2.0 TB/s of memory
/// bandwidth (NVIDIA's data sheet of the 80 GB model).
static constexpr double kDefaultFlopsPerByte = 156;

/// Bytes are the unit of the solver's prices. Times in seconds would be so
/// small next to sums of bytes that rounding would lose them.
double fcdp::costOfRecomputing(aten::CallOp call, const CostModel *model) {
  if (model)
    return model->costOf(call).getTotal() /
           model->getCluster().device.getTimePerByte();
  OperatorWork work = measureWork(call);
  return work.bytes + work.flops / kDefaultFlopsPerByte;
}

namespace {
/// A use of a parameter, for counting gathers. Parameters that are gathered
/// together have one bucket.
struct BucketUse {
  StringAttr unit;
  size_t bucket;
};

class Decider {
public:
  Decider(func::FuncOp step, Operation *end, const CostModel *model,
          BucketKindOf kindOf)
      : step(step), end(end), model(model),
        ranges(findLiveRanges(step, symbols)), units(findUnits(end, ranges)) {
    collectValues();
    markNeeded();
    chooseCalls();
    collectBucketUses(kindOf);
  }

  llvm::Expected<Rematerialization> decide(std::optional<int64_t> budget);

private:
  void collectValues();
  void markNeeded();
  void chooseCalls();
  void collectBucketUses(BucketKindOf kindOf);
  Choice choose(aten::CallOp call);
  bool crossesUnits(aten::CallOp call);
  /// Returns the value whose memory `value` shows, if it is a value of the
  /// problem.
  std::optional<size_t> findValue(Value value);
  SmallVector<size_t> findLateReaders(const RecomputationSolution &solution);
  llvm::Expected<RecomputationSolution>
  solve(function_ref<RecomputationSolution()> solveOnce);

  func::FuncOp step;
  Operation *end;
  const CostModel *model;
  SymbolTableCollection symbols;
  LiveRanges ranges;
  llvm::DenseMap<Operation *, StringAttr> units;
  /// The operations of the problem, and their places in it.
  SmallVector<aten::CallOp> calls;
  llvm::DenseMap<Operation *, size_t> callIndices;
  llvm::DenseMap<Value, size_t> valueIndices;
  llvm::DenseMap<Operation *, SmallVector<BucketUse>> bucketUses;
  RecomputationProblem problem;
};
} // namespace

std::optional<size_t> Decider::findValue(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (!isView(op))
      break;
    value = op->getOperand(0);
  }
  auto found = valueIndices.find(value);
  if (found == valueIndices.end())
    return std::nullopt;
  return found->second;
}

/// Leaves out views, which use no memory. Views of parameters are cloned to
/// each use.
void Decider::collectValues() {
  for (auto call : step.front().getOps<aten::CallOp>()) {
    if (end->isBeforeInBlock(call))
      break;
    if (isView(call) || ranges.views.contains(call))
      continue;
    RecomputationProblem::Op &op = problem.ops.emplace_back();
    op.cost = costOfRecomputing(call, model);
    for (Value operand : call.getOperands())
      if (std::optional<size_t> input = findValue(operand))
        op.inputs.push_back(*input);
    for (Value result : call.getResults()) {
      auto type = cast<RankedTensorType>(result.getType());
      valueIndices[result] = problem.values.size();
      problem.values.push_back({hasByteSize(type) ? byteSize(type) : 0,
                                calls.size(), /*isNeeded=*/false});
    }
    callIndices[call] = calls.size();
    calls.push_back(call);
  }
}

void Decider::markNeeded() {
  for (Operation *op = end->getNextNode(); op; op = op->getNextNode())
    for (Value operand : op->getOperands())
      if (std::optional<size_t> value = findValue(operand))
        problem.values[*value].isNeeded = true;
}

/// Returns whether a call of another unit, or of none, reads results of `call`
/// in the forward pass.
bool Decider::crossesUnits(aten::CallOp call) {
  return isReadOutside(call, end, [&](Operation *user) {
    return units.lookup(user) == units.lookup(call);
  });
}

Choice Decider::choose(aten::CallOp call) {
  if (std::optional<bool> given = getRecompute(call))
    return *given ? Choice::Recompute : Choice::Keep;
  if (!units.lookup(call) || crossesUnits(call) ||
      !findReasonToRunOnce(call).empty())
    return Choice::Keep;
  return Choice::Any;
}

void Decider::chooseCalls() {
  for (auto [call, op] : llvm::zip_equal(calls, problem.ops))
    op.choice = choose(call);
}

void Decider::collectBucketUses(BucketKindOf kindOf) {
  llvm::DenseMap<StringAttr, Type> gradients, wires;
  for (auto gradient : step.front().getOps<GradientOp>())
    gradients[gradient.getParameterAttr().getAttr()] =
        cast<RankedTensorType>(gradient.getValue().getType()).getElementType();
  for (auto read : step.front().getOps<ReadParameterOp>())
    wires[read.getSourceAttr().getAttr()] =
        findNarrowReadType(read.getResult());
  BucketNumbering numbering;
  for (const ParameterUse &use : ranges.uses) {
    ParameterOp parameter = use.parameter;
    Type storage = parameter.getTensorType().getElementType();
    Type wire = wires.lookup(parameter.getSymNameAttr());
    BucketKind kind = kindOf(parameter, wire ? wire : storage,
                             gradients.lookup(parameter.getSymNameAttr()));
    bucketUses[use.operand->getOwner()].push_back(
        {parameter.getUnitAttr(),
         numbering.get(parameter.getUnitAttr(), kind)});
  }
}

/// Returns the calls that would read a parameter outside of a live range in
/// which its bucket is used anyway. Each would cost one more gather.
SmallVector<size_t>
Decider::findLateReaders(const RecomputationSolution &solution) {
  SmallVector<Recomputed> places =
      placeRecomputed(step, [&](aten::CallOp call) {
        auto index = callIndices.find(call);
        return index != callIndices.end() &&
               solution.isRecomputed[index->second];
      });
  // A live range and a bucket that is used in it.
  using RangeOfBucket = std::pair<int64_t, size_t>;
  LiveRangeCounter counter;
  llvm::DenseSet<RangeOfBucket> used;
  SmallVector<std::pair<Operation *, RangeOfBucket>> again;
  auto add = [&](Operation *op, bool isAgain) {
    auto uses = bucketUses.find(op);
    if (uses == bucketUses.end())
      return;
    for (auto [unit, bucket] : uses->second) {
      RangeOfBucket range(counter.add(unit), bucket);
      if (isAgain)
        again.push_back({op, range});
      else
        used.insert(range);
    }
  };
  ArrayRef<Recomputed> next = places;
  for (Operation &op : step.front()) {
    if (!next.empty() && next.front().user == &op) {
      for (Operation *recomputed : next.front().ops)
        add(recomputed, /*isAgain=*/true);
      next = next.drop_front();
    }
    add(&op, /*isAgain=*/false);
  }
  SmallVector<size_t> late;
  for (auto [op, range] : again)
    if (!used.contains(range))
      late.push_back(callIndices.lookup(op));
  return late;
}

/// Solves until no parameter needs another gather because of recomputation.
llvm::Expected<RecomputationSolution>
Decider::solve(function_ref<RecomputationSolution()> solveOnce) {
  while (true) {
    RecomputationSolution solution = solveOnce();
    if (llvm::Error error = solution.verify(problem))
      return error;
    bool isFinal = true;
    for (size_t index : findLateReaders(solution)) {
      Choice &choice = problem.ops[index].choice;
      if (choice == Choice::Recompute) // given
        continue;
      choice = Choice::Keep;
      isFinal = false;
    }
    if (isFinal)
      return solution;
  }
}

llvm::Expected<Rematerialization>
Decider::decide(std::optional<int64_t> budget) {
  if (llvm::Error error = problem.check())
    return error;
  llvm::Expected<RecomputationSolution> best =
      solve([&] { return keepLeast(problem); });
  if (best && budget && best->keptBytes <= *budget) {
    llvm::Expected<RecomputationSolution> within =
        solve([&] { return keepWithin(problem, *budget); });
    if (!within || within->keptBytes <= *budget)
      best = std::move(within);
  }
  if (!best)
    return best.takeError();
  Rematerialization result;
  result.keptBytes = best->keptBytes;
  result.allBytes =
      evaluate(problem, SmallVector<bool>(calls.size())).keptBytes;
  for (auto [call, isRecomputed] : llvm::zip_equal(calls, best->isRecomputed))
    if (isRecomputed)
      result.calls.push_back(call);
  return result;
}

llvm::Expected<Rematerialization>
fcdp::decideRematerialization(func::FuncOp step, std::optional<int64_t> budget,
                              const CostModel *model, BucketKindOf kindOf) {
  Operation *end = findForwardEnd(step);
  if (!end)
    return Rematerialization();
  return Decider(step, end, model, kindOf).decide(budget);
}
