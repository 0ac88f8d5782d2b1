// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Planning/Memory/HostValues.h"

#include "dialects/Fcdp/StatePieces.h"
#include "fcdp/Analysis/Buffers.h"
#include "fcdp/Planning/Memory/ArenaPacking.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace fcdp;

/// Returns the last operation that needs the host memory of `store`.
static Operation *findLastUser(StoreValueOp store) {
  Operation *last = store;
  auto extend = [&](Operation *op) {
    if (last->isBeforeInBlock(op))
      last = op;
  };
  for (Operation *user : store.getStored().getUsers()) {
    extend(user);
    if (auto load = dyn_cast<LoadValueOp>(user))
      for (Operation *release : load.getValue().getUsers())
        if (isa<ReleaseOp>(release))
          extend(release);
  }
  return last;
}

/// Places the pieces that `function` updates on the host. They use a number of
/// windows in turn.
static void addWindows(func::FuncOp function, HostValues &values) {
  std::array<int64_t, kHostWindows> sizes{}, offsets{};
  SmallVector<StoreGradientOp> stores(function.getOps<StoreGradientOp>());
  for (auto [i, store] : llvm::enumerate(stores)) {
    int64_t &size = sizes[i % kHostWindows];
    size = std::max(size, store.getStoredBytes());
  }
  int64_t end = 0;
  for (auto [size, offset] : llvm::zip_equal(sizes, offsets)) {
    offset = end;
    end += static_cast<int64_t>(llvm::alignTo(size, kBufferAlignment));
  }
  for (auto [i, store] : llvm::enumerate(stores))
    values.offsets[store] = offsets[i % kHostWindows];
  values.bytes = std::max(values.bytes, end);
}

HostValues fcdp::planHostValues(ModuleOp module) {
  HostValues values;
  for (auto function : module.getOps<func::FuncOp>())
    addWindows(function, values);
  for (auto function : module.getOps<func::FuncOp>()) {
    SmallVector<StoreValueOp> stores(function.getOps<StoreValueOp>());
    if (stores.empty())
      continue;
    llvm::DenseMap<Operation *, int64_t> positions;
    for (auto [position, op] : llvm::enumerate(function.front()))
      positions[&op] = static_cast<int64_t>(position);
    PackingProblem problem;
    problem.alignment = kBufferAlignment;
    for (StoreValueOp store : stores)
      problem.buffers.push_back({byteSize(store.getValue().getType()),
                                 positions.lookup(store),
                                 positions.lookup(findLastUser(store)) + 1});
    PackingSolution solution = packArenaQuickly(problem);
    for (auto [store, offset] : llvm::zip_equal(stores, solution.offsets))
      values.offsets[store] = offset;
    values.bytes = std::max(values.bytes, solution.peak);
  }
  return values;
}
