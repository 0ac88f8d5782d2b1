// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Analysis/Traffic.h"

#include "dialects/Fcdp/OpList.h"
#include "dialects/Fcdp/Tiers.h"
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
  for (auto state : module.getOps<StateOp>())
    add(state.getBufferAttr());
  module.walk([&](BufferedOpInterface op) {
    add(op.getBufferAttr());
    add(op.getScratchAttr());
  });
  module.walk([&](StoreValueOp store) { add(store.getPlaceAttr()); });
  module.walk([&](StoreGradientOp store) { add(store.getPlaceAttr()); });
  return arenas;
}
