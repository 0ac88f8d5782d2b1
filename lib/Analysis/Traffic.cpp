// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Analysis/Traffic.h"

#include "dialects/Fcdp/OpList.h"
#include "dialects/Fcdp/Tiers.h"
#include "runtime/core/StateRules.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace fcdp;

void LinkBytes::add(const LinkBytes &other, uint64_t times) {
  for (auto [sum, bytes] : llvm::zip(values, other.values))
    sum = llvm::SaturatingMultiplyAdd(bytes, times, sum);
}

/// Predicts the bytes that a rank sends to the other ranks along the axes. For
/// coded messages this is an upper bound.
static LinkBytes predictTraffic(CollectiveOpInterface collective, MeshOp mesh) {
  uint64_t within = collective.isOverAxis(Axis::local) ? mesh.getLocal() : 1;
  uint64_t nodes = collective.isOverAxis(Axis::node) ? mesh.getNode() : 1;
  uint64_t bytes = collective.getMostSentBytes();
  LinkBytes sent;
  sent[LinkId::Inter] = (nodes - 1) * within * bytes;
  sent[LinkId::Intra] = (within - 1) * bytes;
  return sent;
}

LinkBytes fcdp::predictTraffic(Operation *op, MeshOp mesh) {
  if (auto collective = dyn_cast<CollectiveOpInterface>(op))
    return ::predictTraffic(collective, mesh);
  LinkBytes copied;
  FcdpOps::visit<IsHostCopy>(op, [&](auto copy) {
    LinkId link = isLoad(copy) ? kLoadRoute.link : kStoreRoute.link;
    copied[link] = byteSize(getCopiedType(copy));
  });
  return copied;
}

LinkBytes fcdp::predictTraffic(func::FuncOp function, MeshOp mesh) {
  LinkBytes sum;
  function.walk([&](Operation *op) {
    sum.add(predictTraffic(op, mesh), /*times=*/mesh.getLocal());
  });
  return sum;
}

int64_t fcdp::countFileWindow(ModuleOp module) {
  if (getTarget(module) == Target::cpu)
    return 0;
  SymbolTable symbols(module);
  int64_t largest = 0;
  module.walk([&](StateLoadOp load) {
    auto state = symbols.lookup<StateOp>(load.getSource());
    if (state && state.getArena() == Arena::file)
      largest = std::max(largest, byteSize(load.getType()));
  });
  int64_t part =
      llvm::alignTo(llvm::divideCeil(largest, kFileWindowParts), kFileBlock);
  return kFileWindowParts * std::min(part, kMostFilePart);
}

/// Calls `visit` with each place in an arena that a planned module has.
static void visitPlaces(ModuleOp module,
                        llvm::function_ref<void(BufferAttr)> visit) {
  for (auto state : module.getOps<StateOp>())
    visit(state.getBufferAttr());
  module.walk([&](BufferedOpInterface op) {
    visit(op.getBufferAttr());
    visit(op.getScratchAttr());
  });
  module.walk([&](StoreValueOp store) { visit(store.getPlaceAttr()); });
  module.walk([&](StoreGradientOp store) { visit(store.getPlaceAttr()); });
}

BufferAttr fcdp::getFileWindow(ModuleOp module) {
  int64_t bytes = countFileWindow(module);
  if (bytes == 0)
    return {};
  // All places in a rank's part have its size as their stride.
  int64_t part = bytes;
  visitPlaces(module, [&](BufferAttr buffer) {
    if (buffer && buffer.getArena() == Arena::host)
      part = std::max(part, buffer.getLocalStride());
  });
  return BufferAttr::get(module.getContext(), Arena::host, part - bytes, bytes,
                         /*node_stride=*/0, /*local_stride=*/part);
}

ArenaArray<uint64_t> fcdp::measureArenas(ModuleOp module) {
  ArenaArray<uint64_t> arenas;
  MeshOp mesh = getMesh(module);
  auto add = [&](BufferAttr buffer) {
    if (!buffer)
      return;
    uint64_t end = buffer.getOffset() + buffer.getBytes();
    end = llvm::SaturatingMultiplyAdd<uint64_t>(mesh.getNode() - 1,
                                                buffer.getNodeStride(), end);
    end = llvm::SaturatingMultiplyAdd<uint64_t>(mesh.getLocal() - 1,
                                                buffer.getLocalStride(), end);
    uint64_t &size = arenas[buffer.getArena()];
    size = std::max(size, end);
  };
  visitPlaces(module, add);
  add(getFileWindow(module));
  return arenas;
}
