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

llvm::Expected<ReduceWireSpec> fcdp::parseReduceWire(StringRef text) {
  if (text == "auto")
    return ReduceWireSpec();
  auto wire = llvm::StringSwitch<std::optional<Wire>>(text)
                  .Case("raw", Wire::raw)
                  .Case("coded", Wire::coded)
                  .Case("int8", Wire::int8)
                  .Case("int4", Wire::int4)
                  .Default(std::nullopt);
  if (wire)
    return ReduceWireSpec(*wire);
  return llvm::createStringError(
      "expected 'auto', 'raw', 'coded', 'int8' or 'int4', got '" + text + "'");
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
  if (gathers == GatherWireSpec::raw || !canCodeDeltas(bucket) ||
      !canCode(Wire::delta, getTarget(bucket->getParentOfType<ModuleOp>())))
    return Wire::raw;
  return gathers == GatherWireSpec::delta || isFaster(bucket, *model)
             ? Wire::delta
             : Wire::raw;
}

static Cost costOfCoded(BucketOp bucket, Type element, double partBytes,
                        Wire wire, const CostModel &model) {
  auto module = bucket->getParentOfType<ModuleOp>();
  return costOfCodedReduction(model.getCluster(), getMesh(module).getNode(),
                              partBytes, elementBytes(element), wire,
                              getTarget(module));
}

Wire WireChoice::getReduceWire(BucketOp bucket, Type element, double partBytes,
                               const CostModel *model) const {
  if (bucket.getReduceWire())
    return *bucket.getReduceWire();
  if (!bucket.getTrainable() || reductions)
    return bucket.getTrainable() ? *reductions : Wire::raw;
  if (!element ||
      !canCode(Wire::coded, getTarget(bucket->getParentOfType<ModuleOp>())))
    return Wire::raw;
  Cost raw = MessageCosts::costOfReduction(bucket, element, partBytes, *model);
  Cost coded = costOfCoded(bucket, element, partBytes, Wire::coded, *model);
  return coded.getTotal() < raw.getTotal() ? Wire::coded : Wire::raw;
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
  Wire wire = getReduceWire(bucket, element, partBytes, &model);
  return wire == Wire::raw
             ? MessageCosts::costOfReduction(bucket, element, partBytes, model)
             : costOfCoded(bucket, element, partBytes, wire, model);
}

/// Returns the types in which the gradients of buckets are reduced.
static llvm::DenseMap<Attribute, Type> findReducedTypes(ModuleOp module) {
  llvm::DenseMap<Attribute, Type> types;
  module.walk([&](CollectiveOpInterface collective) {
    if (collective.isReduction())
      types[collective.getSourceAttr().getAttr()] =
          cast<RankedTensorType>(collective.getInput().getType())
              .getElementType();
  });
  return types;
}

void WireChoice::apply(ModuleOp module, const CostModel *model) const {
  if (getMesh(module).getNode() == 1)
    return; // nothing is sent between nodes
  auto reduced = findReducedTypes(module);
  for (auto bucket : module.getOps<BucketOp>()) {
    Type element = reduced.lookup(bucket.getSymNameAttr());
    double part = element ? static_cast<double>(bucket.getElements()) *
                                elementBytes(element) /
                                getMesh(module).getWorldSize()
                          : 0;
    Wire wire = getReduceWire(bucket, element, part, model);
    if (wire != Wire::raw && bucket.getCollectives() != Collectives::flat)
      bucket.setReduceWire(wire);
    if (mayGatherDeltas(bucket) && getGatherWire(bucket, model) == Wire::delta)
      bucket.setGatherWire(Wire::delta);
  }
}
