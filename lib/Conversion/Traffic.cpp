// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Conversion/Traffic.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace fcdp;

LinkBytes &LinkBytes::operator+=(const LinkBytes &other) {
  inter += other.inter;
  intra += other.intra;
  hostToDevice += other.hostToDevice;
  deviceToHost += other.deviceToHost;
  return *this;
}

static int64_t bytesOf(Value value) {
  return byteSize(cast<RankedTensorType>(value.getType()));
}

/// Every local rank sends `bytes` along `axis`.
static LinkBytes alongAxis(Axis axis, int64_t bytes, MeshOp mesh) {
  LinkBytes link;
  int64_t ofNode = static_cast<int64_t>(mesh.getLocal()) * bytes;
  (axis == Axis::node ? link.inter : link.intra) = ofNode;
  return link;
}

template <typename OpTy>
static Axis getAxis(OpTy op) {
  return cast<AxisAttr>(op.getAxes()[0]).getValue();
}

LinkBytes fcdp::predictTraffic(func::FuncOp function, MeshOp mesh) {
  LinkBytes sum;
  int64_t locals = mesh.getLocal();
  function.walk([&](Operation *op) {
    llvm::TypeSwitch<Operation *>(op)
        .Case([&](AllGatherOp gather) {
          // A rank's part goes to each of the others.
          int64_t others = mesh.getSize(getAxis(gather)) - 1;
          sum += alongAxis(getAxis(gather), others * bytesOf(gather.getInput()),
                           mesh);
        })
        .Case([&](ReduceScatterOp reduce) {
          // Each of the others gets its part.
          int64_t ranks = mesh.getSize(getAxis(reduce));
          int64_t part = bytesOf(reduce.getInput()) / ranks;
          sum += alongAxis(getAxis(reduce), (ranks - 1) * part, mesh);
        })
        .Case([&](CacheLoadOp load) {
          sum.hostToDevice += locals * bytesOf(load.getResult());
        })
        .Case([&](CacheStoreOp store) {
          sum.deviceToHost += locals * bytesOf(store.getValue());
        });
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
      int64_t end = buffer.getOffset() + buffer.getBytes() +
                    (mesh.getNode() - 1) * buffer.getNodeStride() +
                    (mesh.getLocal() - 1) * buffer.getLocalStride();
      int64_t &size =
          buffer.getArena() == Arena::device ? arenas.device : arenas.host;
      size = std::max(size, end);
    }
  });
  return arenas;
}
