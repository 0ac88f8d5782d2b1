// SPDX-License-Identifier: Apache-2.0

#include "BucketUsage.h"

#include "fcdp/Analysis/Aliases.h"

using namespace mlir;
using namespace fcdp;

/// The units whose parameters a function uses, one for each use, in order.
using UseOrder = SmallVector<StringAttr>;

/// Splits the uses of each unit's parameters into live ranges. A live range is
/// a longest run of uses without a use of another unit in between. It may also
/// end where recomputation ends. A bucket is not necessarily used in all ranges
/// of its unit.
static UseOrder findRanges(func::FuncOp function, BucketUsages &usages,
                           const SymbolTable &symbols) {
  llvm::DenseMap<Value, ViewMemberOp> shown;
  llvm::DenseMap<StringAttr, size_t> starts;
  UseOrder order;
  bool endsAfterRecomputation =
      getWrap(function->getParentOfType<ModuleOp>()) == Wrap::checkpoint;
  bool wasRepeated = false;
  for (Operation &op : function.front()) {
    if (auto view = dyn_cast<ViewMemberOp>(op)) {
      shown[view.getResult()] = view;
      continue;
    }
    if (isView(&op)) {
      if (ViewMemberOp view = shown.lookup(op.getOperand(0)))
        for (Value result : op.getResults())
          shown[result] = view;
      continue;
    }
    for (Value operand : op.getOperands()) {
      ViewMemberOp view = shown.lookup(operand);
      if (!view)
        continue;
      StringAttr unit =
          symbols.lookup<ParameterOp>(view.getParameter()).getUnitAttr();
      bool ends = endsAfterRecomputation && wasRepeated && !isRepeated(&op);
      wasRepeated = isRepeated(&op);
      if (order.empty() || order.back() != unit || ends)
        starts[unit] = order.size();
      auto &ranges = usages[view.getBucketAttr().getAttr()].ranges[unit];
      if (ranges.empty() || ranges.back().last < starts[unit])
        ranges.push_back({order.size(), order.size()});
      ranges.back().last = order.size();
      order.push_back(unit);
    }
  }
  return order;
}

/// Returns whether a unit that the bucket does not serve is used between `a`
/// and `b`.
static bool isInterrupted(const BucketUsage &usage, const UseOrder &order,
                          const UseSpan &a, const UseSpan &b) {
  for (size_t i = a.last + 1; i < b.first; ++i)
    if (!usage.ranges.contains(order[i]))
      return true;
  return false;
}

/// Counts the live ranges of the gathered copy. The n-th range of the bucket
/// spans the n-th ranges of all units that it serves. Ranges are merged if no
/// other unit is used between them.
static int64_t countRanges(const BucketUsage &usage, const UseOrder &order) {
  SmallVector<UseSpan> spans;
  for (auto &[unit, ranges] : usage.ranges)
    for (auto [n, range] : llvm::enumerate(ranges)) {
      if (n == spans.size())
        spans.push_back(range);
      spans[n].first = std::min(spans[n].first, range.first);
      spans[n].last = std::max(spans[n].last, range.last);
    }
  if (usage.ranges.size() <= 1)
    return spans.size();
  int64_t count = 0;
  UseSpan current{};
  for (const UseSpan &span : spans) {
    if (count == 0 || isInterrupted(usage, order, current, span)) {
      ++count;
      current = span;
    }
    current.last = std::max(current.last, span.last);
  }
  return count;
}

/// Returns the bucket that a collective or copy serves, or null.
static StringAttr
getBucket(Operation *op, const llvm::DenseMap<StringAttr, StringAttr> &caches) {
  if (auto collective = dyn_cast<CollectiveOpInterface>(op))
    return collective.getSourceAttr().getAttr();
  if (auto load = dyn_cast<CacheLoadOp>(op))
    return caches.lookup(load.getSourceAttr().getAttr());
  if (auto store = dyn_cast<CacheStoreOp>(op))
    return caches.lookup(store.getTargetAttr().getAttr());
  if (isa<StoreGradientOp, LoadShardOp>(op))
    return cast<StorageOpInterface>(op).getStorageAttr().getAttr();
  if (auto load = dyn_cast<StateLoadOp>(op))
    return caches.lookup(load.getSourceAttr().getAttr());
  if (auto store = dyn_cast<StateStoreOp>(op))
    return caches.lookup(store.getTargetAttr().getAttr());
  return {};
}

static void measure(Operation *op, StringAttr bucket, MeshOp mesh,
                    BucketUsages &usages) {
  BucketUsage &usage = usages[bucket];
  LinkBytes bytes = predictTraffic(op, mesh);
  usage.bytes.add(bytes);
  for (LinkId link : kLinks)
    if (bytes[link] && !usage.examples[link])
      usage.examples[link] = op;
}

BucketUsages
fcdp::collectUsages(func::FuncOp function, MeshOp mesh,
                    const SymbolTable &symbols,
                    const llvm::DenseMap<StringAttr, StringAttr> &caches) {
  BucketUsages usages;
  UseOrder order = findRanges(function, usages, symbols);
  for (Operation &inner : function.front()) {
    if (StringAttr bucket = getBucket(&inner, caches))
      measure(&inner, bucket, mesh, usages);
    if (auto pack = dyn_cast<PackOp>(inner))
      usages[pack.getBucketAttr().getAttr()].gradientBytes =
          elementBytes(pack.getResult().getType().getElementType());
    if (auto update = dyn_cast<UpdateOpInterface>(inner))
      usages[update.getTargetAttr().getAttr()].isUpdated = true;
    if (auto difference = dyn_cast<OuterDifferenceOp>(inner))
      usages[difference.getSourceAttr().getAttr()].differenceBytes =
          elementBytes(difference.getResult().getType().getElementType());
  }
  for (auto &[name, usage] : usages)
    usage.rangeCount = countRanges(usage, order);
  return usages;
}
