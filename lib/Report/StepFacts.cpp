// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Report/StepFacts.h"

#include "dialects/Aten/Aten.h"
#include "fcdp/Analysis/StepFunctions.h"
#include "llvm/ADT/DenseSet.h"

using namespace mlir;
using namespace fcdp;

static int64_t countFlat(ModuleOp module) {
  llvm::DenseSet<Attribute> flat;
  module.walk([&](CollectiveOpInterface op) {
    if (op.getAxes().size() > 1)
      flat.insert(op.getSourceAttr());
  });
  return flat.size();
}

static StorageFacts measureStorage(ModuleOp module) {
  StorageFacts storage;
  for (auto parameter : module.getOps<ParameterOp>()) {
    ++storage.parameters;
    storage.trainable += parameter.getTrainable();
    storage.elements += parameter.getTensorType().getNumElements();
    storage.bytes += byteSize(parameter.getTensorType());
  }
  for (auto bucket : module.getOps<BucketOp>()) {
    ++storage.buckets;
    storage.padding += static_cast<int64_t>(bucket.getElements()) *
                       elementBytes(bucket.getStorage());
    storage.shardedOverNode += bucket.getSharding() == Sharding::node;
    storage.replicated += bucket.getSharding() == Sharding::none;
  }
  // Every parameter is a member of one bucket.
  storage.padding -= storage.bytes;
  storage.flat = countFlat(module);
  storage.boundedMessages = describeBoundedMessages(module);
  return storage;
}

OperationPlace fcdp::describePlace(Operation *op) {
  OperationPlace place;
  if (auto call = dyn_cast<aten::CallOp>(op))
    place.operation = call.getCallee();
  else
    place.operation = op->getName().getStringRef();
  place.function = op->getParentOfType<func::FuncOp>().getName();
  if (auto file = op->getLoc()->findInstanceOf<FileLineColLoc>();
      file && file.getLine() != 0) {
    place.file = file.getFilename().getValue();
    place.line = file.getLine();
  }
  if (auto name = op->getLoc()->findInstanceOf<NameLoc>())
    place.module = name.getName().getValue();
  return place;
}

/// Returns the bytes of the host arena that states use, over all ranks of a
/// node.
static BytesByUse measureHostStates(ModuleOp module, MeshOp mesh) {
  BytesByUse inUse;
  for (auto state : module.getOps<StateOp>()) {
    std::optional<BufferAttr> buffer = state.getBuffer();
    if (buffer && buffer->getArena() == Arena::host)
      inUse[getMemoryUse(state.getRole())] +=
          buffer->getBytes() *
          (buffer->getLocalStride() == 0 ? 1 : mesh.getLocal());
  }
  return inUse;
}

StepFacts fcdp::measureStep(ModuleOp module, const DeviceMemory &device) {
  StepFacts facts;
  MeshOp mesh = getMesh(module);
  facts.nodes = mesh.getNode();
  facts.ranksPerNode = mesh.getLocal();
  facts.microBatches = getMicroBatches(module);
  facts.strategy = getStrategy(module).value_or("");
  facts.storage = measureStorage(module);
  facts.device = device;
  if (device.fullest)
    facts.fullest = describePlace(device.fullest);
  facts.device.fullest = nullptr;
  ArenaArray<uint64_t> arenas = measureArenas(module);
  facts.host = arenas[Arena::host];
  facts.files = arenas[Arena::file];
  facts.hostInUse = measureHostStates(module, mesh);
  for (func::FuncOp function : getFunctionsOf(module)) {
    Role role = *findRole(function);
    LinkBytes bytes = predictTraffic(function, mesh);
    if (role == Role::init)
      facts.init.add(bytes);
    facts.step.add(bytes, StepFamily(facts.microBatches).countRuns(role));
  }
  facts.family = measureFamily(module, device, facts.step);
  return facts;
}
