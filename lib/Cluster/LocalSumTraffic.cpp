// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Cluster/LocalSumTraffic.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

using namespace mlir;
using namespace fcdp;

/// Returns the pack whose gradients `sum` adds directly or after a cast,
/// without a collective between them. Null if there is none.
static PackOp findPack(AccumulateOp sum) {
  Operation *producer = sum.getValue().getDefiningOp();
  while (auto cast = dyn_cast_or_null<CastShardOp>(producer))
    producer = cast.getInput().getDefiningOp();
  return dyn_cast_or_null<PackOp>(producer);
}

/// Returns whether each reader of `value` accumulates it, directly or after a
/// cast.
static bool isAccumulatedOnly(Value value) {
  return llvm::all_of(value.getUsers(), [](Operation *user) {
    if (auto cast = dyn_cast<CastShardOp>(user))
      return isAccumulatedOnly(cast.getResult());
    return isa<AccumulateOp>(user);
  });
}

static double measureSum(AccumulateOp sum, PackOp pack, const LocalSums &sums) {
  double gradient = 0, whole = 0;
  for (Value value : pack.getValues()) {
    auto type = cast<RankedTensorType>(value.getType());
    gradient += static_cast<double>(byteSize(type));
    whole += static_cast<double>(type.getNumElements() * sums.bytes);
  }
  bool isFirst = sum.getMode() == Accumulate::overwrite;
  double read = isFirst ? 0 : whole;
  // The product writes a gradient of another type than it would otherwise.
  if (sums.by == SummedBy::product)
    return std::max(0.0, read + whole - gradient);
  // The first gradient becomes the accumulator if both have one type.
  if (isFirst && whole == gradient)
    return 0;
  return gradient + read + whole;
}

std::optional<double> fcdp::measureLocalSum(Operation *op,
                                            const LocalSums &sums) {
  if (sums.by == SummedBy::plan)
    return std::nullopt;
  if (auto sum = dyn_cast<AccumulateOp>(op)) {
    if (PackOp pack = findPack(sum))
      return measureSum(sum, pack, sums);
  } else if (isa<PackOp>(op) || (isa<CastShardOp>(op) &&
                                 op->getOperand(0).getDefiningOp<PackOp>())) {
    if (!op->getResult(0).use_empty() && isAccumulatedOnly(op->getResult(0)))
      return 0;
  }
  return std::nullopt;
}
