// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Analysis/GradientSums.h"

using namespace mlir;
using namespace fcdp;

static GradientSum findReduction(AccumulateOp sum) {
  GradientSum result;
  result.sum = sum;
  Operation *step = sum.getValue().getDefiningOp();
  for (; isa_and_present<ReduceScatterOp, AllGatherOp>(step);
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
  StringAttr previous;
  for (Operation &op : block) {
    positions.try_emplace(&op, positions.size());
    if (auto read = dyn_cast<ReadStateOp>(op))
      readSums.insert(read.getSource());
    auto pack = dyn_cast<PackOp>(op);
    if (!pack)
      continue;
    StringAttr unit = units.lookup(pack.getBucketAttr().getAttr());
    if (firstPacks.empty() || unit != previous)
      firstPacks.push_back(pack);
    previous = unit;
  }
  for (auto sum : block.getOps<AccumulateOp>())
    if (GradientSum found = findReduction(sum); !found.steps.empty()) {
      found.isRead = readSums.contains(sum.getTarget());
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
  return *unit + inFlight < firstPacks.size() ? firstPacks[*unit + inFlight]
                                              : block.getTerminator();
}
