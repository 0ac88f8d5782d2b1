// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Conversion/Traffic.h"

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

/// A rank sends `bytes` along an axis.
static LinkBytes along(ArrayAttr axes, uint64_t bytes) {
  LinkBytes link;
  bool isNode = cast<AxisAttr>(axes[0]).getValue() == Axis::node;
  (isNode ? link.inter : link.intra) = bytes;
  return link;
}

static uint64_t getRanks(ArrayAttr axes, MeshOp mesh) {
  return mesh.getSize(cast<AxisAttr>(axes[0]).getValue());
}

LinkBytes fcdp::predictTraffic(Operation *op, MeshOp mesh) {
  if (auto gather = dyn_cast<AllGatherOp>(op)) {
    // Its part goes to each of the others.
    uint64_t others = getRanks(gather.getAxes(), mesh) - 1;
    return along(gather.getAxes(), others * bytesOf(gather.getInput()));
  }
  if (auto reduce = dyn_cast<ReduceScatterOp>(op)) {
    // Each of the others gets its part.
    uint64_t ranks = getRanks(reduce.getAxes(), mesh);
    uint64_t part = bytesOf(reduce.getInput()) / ranks;
    return along(reduce.getAxes(), (ranks - 1) * part);
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
