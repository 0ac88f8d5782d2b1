// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Transforms/Options/WireSpec.h"

#include "fcdp/Cluster/MessageCost.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace fcdp;

llvm::Expected<GatherWireSpec> fcdp::parseGatherWire(StringRef text) {
  auto wire = llvm::StringSwitch<std::optional<GatherWireSpec>>(text)
                  .Case("raw", GatherWireSpec::raw)
                  .Case("delta", GatherWireSpec::delta)
                  .Case("auto", GatherWireSpec::automatic)
                  .Default(std::nullopt);
  if (wire)
    return *wire;
  return llvm::createStringError("expected 'raw', 'delta' or 'auto', got '" +
                                 text + "'");
}

llvm::Expected<Wire> fcdp::parseReduceWire(StringRef text) {
  auto wire = llvm::StringSwitch<std::optional<Wire>>(text)
                  .Case("raw", Wire::raw)
                  .Case("coded", Wire::coded)
                  .Case("int8", Wire::int8)
                  .Case("int4", Wire::int4)
                  .Default(std::nullopt);
  if (wire)
    return *wire;
  return llvm::createStringError(
      "expected 'raw', 'coded', 'int8' or 'int4', got '" + text + "'");
}

WireChoice fcdp::getWireChoice(StringRef gathers, StringRef reductions) {
  return WireChoice(llvm::cantFail(parseGatherWire(gathers)),
                    llvm::cantFail(parseReduceWire(reductions)));
}

/// Returns whether a gather of differences takes less time than one of values.
static bool isFaster(BucketOp bucket, const CostModel &model) {
  MeshOp mesh = getMesh(bucket->getParentOfType<ModuleOp>());
  double part = static_cast<double>(bucket.getElements()) *
                elementBytes(bucket.getWire()) / mesh.getWorldSize();
  return costOfDeltaGather(model.getCluster(), mesh.getNode(), part)
             .getTotal() <
         model.costOfGather(Axis::node, mesh.getNode(), part).getTotal();
}

Wire WireChoice::getGatherWire(BucketOp bucket, const CostModel *model) const {
  if (bucket.getGatherWire())
    return *bucket.getGatherWire();
  if (gathers == GatherWireSpec::raw || !canCodeDeltas(bucket))
    return Wire::raw;
  return gathers == GatherWireSpec::delta || isFaster(bucket, *model)
             ? Wire::delta
             : Wire::raw;
}

Wire WireChoice::getReduceWire(BucketOp bucket) const {
  if (bucket.getReduceWire())
    return *bucket.getReduceWire();
  return bucket.getTrainable() ? reductions : Wire::raw;
}

std::optional<Cost>
WireChoice::costOfReferringGather(BucketOp bucket, double partBytes,
                                  const CostModel &model) const {
  if (getGatherWire(bucket, &model) != Wire::delta)
    return std::nullopt;
  MeshOp mesh = getMesh(bucket->getParentOfType<ModuleOp>());
  return costOfDeltaGather(model.getCluster(), mesh.getNode(), partBytes);
}

Cost WireChoice::costOfReduction(BucketOp bucket, Type element,
                                 double partBytes,
                                 const CostModel &model) const {
  Wire wire = getReduceWire(bucket);
  if (wire == Wire::raw)
    return MessageCosts::costOfReduction(bucket, element, partBytes, model);
  MeshOp mesh = getMesh(bucket->getParentOfType<ModuleOp>());
  return costOfCodedReduction(model.getCluster(), mesh.getNode(), partBytes,
                              elementBytes(element), wire,
                              getTarget(bucket->getParentOfType<ModuleOp>()));
}

void WireChoice::apply(ModuleOp module, const CostModel *model) const {
  if (getMesh(module).getNode() == 1)
    return; // nothing is sent between nodes
  for (auto bucket : module.getOps<BucketOp>()) {
    Wire wire = getReduceWire(bucket);
    if (wire != Wire::raw && bucket.getCollectives() != Collectives::flat)
      bucket.setReduceWire(wire);
    if (mayGatherDeltas(bucket) && getGatherWire(bucket, model) == Wire::delta)
      bucket.setGatherWire(Wire::delta);
  }
}
