// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Analysis/GradientSums.h"

#include "fcdp/Analysis/LiveRanges.h"
#include "fcdp/Analysis/SumDelay.h"

using namespace mlir;
using namespace fcdp;

/// Returns the value that `op` accumulates, and sets the addition that it uses.
/// Null if `op` accumulates nothing.
static Value findAccumulated(Operation *op, AddOp &add) {
  if (auto sum = dyn_cast<AccumulateOp>(op))
    return sum.getValue();
  if (auto store = dyn_cast<CacheStoreOp>(op)) {
    add = store.getValue().getDefiningOp<AddOp>();
    Value value = add ? add.getValue() : store.getValue();
    // Otherwise the value is a parameter's copy.
    return asReduction(value.getDefiningOp()) ? value : Value();
  }
  add = dyn_cast<AddOp>(op);
  bool isStored = add && llvm::any_of(add.getResult().getUsers(),
                                      llvm::IsaPred<CacheStoreOp>);
  return add && !isStored ? add.getValue() : Value();
}

/// Returns the reduction whose result `op` accumulates, if there is one.
static GradientSum findReduction(Operation *op) {
  GradientSum result;
  result.sum = op;
  Value accumulated = findAccumulated(op, result.add);
  Operation *step = accumulated ? accumulated.getDefiningOp() : nullptr;
  for (; isa_and_present<CollectiveOpInterface>(step);
       step = step->getOperand(0).getDefiningOp())
    result.steps.push_back(step);
  std::reverse(result.steps.begin(), result.steps.end());
  result.pack = dyn_cast_or_null<PackOp>(step);
  return result;
}

GradientSums::GradientSums(Block &block) : block(block) {
  llvm::DenseSet<StringRef> readSums;
  llvm::DenseMap<StringAttr, StringAttr> units;
  auto module = block.getParentOp()->getParentOfType<ModuleOp>();
  for (auto bucket : module.getOps<BucketOp>())
    units[bucket.getSymNameAttr()] = bucket.getUnitAttr();
  LiveRangeCounter counter;
  for (Operation &op : block) {
    positions.try_emplace(&op, positions.size());
    if (auto read = dyn_cast<ReadStateOp>(op))
      readSums.insert(read.getSource());
    auto pack = dyn_cast<PackOp>(op);
    if (!pack)
      continue;
    StringAttr unit = units.lookup(pack.getBucketAttr().getAttr());
    if (counter.add(unit) == static_cast<int64_t>(firstPacks.size()))
      firstPacks.push_back(pack);
  }
  for (Operation &op : block)
    if (GradientSum found = findReduction(&op); !found.steps.empty()) {
      auto sum = dyn_cast<AccumulateOp>(op);
      found.isRead = isa<AddOp>(op) || // it is what others wait for
                     (sum && readSums.contains(sum.getTarget()));
      sums.push_back(std::move(found));
    }
}

std::optional<size_t> GradientSums::findUnit(const GradientSum &sum) const {
  Operation *const *next =
      llvm::partition_point(firstPacks, [&](Operation *pack) {
        return isBefore(pack, sum.steps.back());
      });
  if (next == firstPacks.begin())
    return std::nullopt;
  return next - firstPacks.begin() - 1;
}

Operation *GradientSums::findPlace(const GradientSum &sum,
                                   size_t inFlight) const {
  std::optional<size_t> unit = findUnit(sum);
  if (!unit)
    return nullptr;
  size_t place = findSumPlace(*unit, inFlight, firstPacks.size());
  return place < firstPacks.size() ? firstPacks[place] : block.getTerminator();
}
