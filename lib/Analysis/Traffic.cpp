// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Analysis/Traffic.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace fcdp;

void LinkBytes::add(const LinkBytes &other, uint64_t times) {
  auto addTo = [&](uint64_t &sum, uint64_t bytes) {
    sum = llvm::SaturatingMultiplyAdd(bytes, times, sum);
  };
  addTo(inter, other.inter);
  addTo(intra, other.intra);
  addTo(hostToDevice, other.hostToDevice);
  addTo(deviceToHost, other.deviceToHost);
}

static uint64_t bytesOf(Value value) {
  return byteSize(cast<RankedTensorType>(value.getType()));
}

/// Ranks of this node, and of others, that take part in a collective.
static std::pair<uint64_t, uint64_t> countRanks(ArrayAttr axes, MeshOp mesh) {
  uint64_t within = isOver(axes, Axis::local) ? mesh.getLocal() : 1;
  uint64_t nodes = isOver(axes, Axis::node) ? mesh.getNode() : 1;
  return {within, (nodes - 1) * within};
}

/// A rank sends `bytes` to each of the others along the axes.
static LinkBytes along(ArrayAttr axes, MeshOp mesh, uint64_t bytes) {
  auto [within, outside] = countRanks(axes, mesh);
  LinkBytes link;
  link.inter = outside * bytes;
  link.intra = (within - 1) * bytes;
  return link;
}

LinkBytes fcdp::predictTraffic(Operation *op, MeshOp mesh) {
  // Its part goes to each of the others.
  if (auto gather = dyn_cast<AllGatherOp>(op))
    return along(gather.getAxes(), mesh, bytesOf(gather.getInput()));
  // Each of the others gets its part.
  if (auto reduce = dyn_cast<ReduceScatterOp>(op)) {
    auto [within, outside] = countRanks(reduce.getAxes(), mesh);
    return along(reduce.getAxes(), mesh,
                 bytesOf(reduce.getInput()) / (within + outside));
  }
  LinkBytes link;
  if (auto load = dyn_cast<CacheLoadOp>(op))
    link.hostToDevice = bytesOf(load.getResult());
  else if (auto store = dyn_cast<CacheStoreOp>(op))
    link.deviceToHost = bytesOf(store.getValue());
  return link;
}

LinkBytes fcdp::predictTraffic(func::FuncOp function, MeshOp mesh) {
  LinkBytes sum;
  function.walk([&](Operation *op) {
    sum.add(predictTraffic(op, mesh), /*times=*/mesh.getLocal());
  });
  return sum;
}

ArenaBytes fcdp::measureArenas(ModuleOp module) {
  ArenaBytes arenas;
  MeshOp mesh = getMesh(module);
  // Whatever has a place names it in an attribute.
  module.walk([&](Operation *op) {
    for (StringRef name : {"buffer", "scratch"}) {
      auto buffer = op->getAttrOfType<BufferAttr>(name);
      if (!buffer)
        continue;
      uint64_t end = buffer.getOffset() + buffer.getBytes();
      end = llvm::SaturatingMultiplyAdd<uint64_t>(mesh.getNode() - 1,
                                                  buffer.getNodeStride(), end);
      end = llvm::SaturatingMultiplyAdd<uint64_t>(mesh.getLocal() - 1,
                                                  buffer.getLocalStride(), end);
      uint64_t &size =
          buffer.getArena() == Arena::device ? arenas.device : arenas.host;
      size = std::max(size, end);
    }
  });
  return arenas;
}
