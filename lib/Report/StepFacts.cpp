// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Report/StepFacts.h"

#include "dialects/Aten/Aten.h"
#include "fcdp/Analysis/StepFunctions.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/MapVector.h"

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

/// Returns the type of each input of a variant, by the input's name.
static llvm::MapVector<StringRef, RankedTensorType>
collectInputs(ModuleOp module, int64_t variant) {
  llvm::MapVector<StringRef, RankedTensorType> inputs;
  for (auto input : module.getOps<InputOp>())
    if (!input.getEvaluation() &&
        input.getVariant().value_or(0) == uint64_t(variant))
      inputs[input.getName()] = cast<RankedTensorType>(input.getType());
  return inputs;
}

/// Returns "ids [4, 512], labels [4, 512]" for the inputs of `variant` whose
/// shapes differ between the variants.
static std::string describeInputs(ModuleOp module, int64_t variant,
                                  int64_t variants) {
  auto smallest = collectInputs(module, 0);
  auto greatest = collectInputs(module, variants - 1);
  std::string text;
  llvm::raw_string_ostream stream(text);
  for (auto &[name, type] : collectInputs(module, variant)) {
    if (smallest.lookup(name) == greatest.lookup(name))
      continue;
    stream << (text.empty() ? "" : ", ") << name << " [";
    llvm::interleaveComma(type.getShape(), stream);
    stream << ']';
  }
  return text;
}

static VariantFacts measureVariant(ModuleOp module, const DeviceMemory &device,
                                   int64_t variant, int64_t variants) {
  VariantFacts facts;
  facts.inputs = describeInputs(module, variant, variants);
  facts.deviceBytes = device.inputs;
  int64_t arena = 0;
  for (auto [function, memory] :
       llvm::zip_equal(module.getOps<func::FuncOp>(), device.functions)) {
    if (!isOfVariant(function, variant))
      continue;
    arena = std::max(arena, memory.arena.bytes);
    facts.step.add(
        predictTraffic(function, getMesh(module)),
        StepFamily(getMicroBatches(module)).countRuns(getRole(function)));
  }
  facts.deviceBytes += arena;
  return facts;
}

/// Returns the bytes that a node sends to others in a step of exact training,
/// which gathers each trained bucket and reduces its gradients once.
static uint64_t countExactBytes(ModuleOp module, MeshOp mesh) {
  llvm::DenseMap<StringAttr, int64_t> gradientBytes;
  module.walk([&](PackOp pack) {
    gradientBytes[pack.getBucketAttr().getAttr()] =
        elementBytes(pack.getResult().getType().getElementType());
  });
  uint64_t bytes = 0;
  for (auto bucket : module.getOps<BucketOp>())
    if (bucket.getTrainable())
      bytes += bucket.getElements() / mesh.getNode() * (mesh.getNode() - 1) *
               (elementBytes(bucket.getWire()) +
                gradientBytes.lookup(bucket.getSymNameAttr()));
  return bytes;
}

/// Returns the bytes of the outer update in `function`, alone or within a
/// micro-batch.
static LinkBytes measureOuter(func::FuncOp function, MeshOp mesh) {
  LinkBytes bytes = predictTraffic(function, mesh);
  Role inner = getInnerRole(getRole(function));
  if (inner == Role::outer_update)
    return bytes;
  auto module = function->getParentOfType<ModuleOp>();
  LinkBytes rest = predictTraffic(findFunction(module, inner), mesh);
  for (LinkId link : kLinks)
    bytes[link] -= rest[link];
  return bytes;
}

static StepFacts::OuterFacts measureOuter(ModuleOp module, OuterAttr outer,
                                          const LinkBytes &step) {
  StepFacts::OuterFacts facts;
  facts.every = outer.getEvery();
  facts.fragments = outer.getFragments();
  MeshOp mesh = getMesh(module);
  for (auto function : module.getOps<func::FuncOp>())
    if (isOuter(getRole(function)))
      facts.updates.add(measureOuter(function, mesh));
  facts.perStep =
      step[LinkId::Inter] + facts.updates[LinkId::Inter] / facts.every;
  facts.exactPerStep = countExactBytes(module, mesh);
  return facts;
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
  facts.host = measureArenas(module)[Arena::host];
  facts.hostInUse = measureHostStates(module, mesh);
  int64_t variants = countVariants(module);
  for (int64_t variant = 0; variants > 1 && variant < variants; ++variant)
    facts.variants.push_back(measureVariant(module, device, variant, variants));
  for (func::FuncOp function : getFunctionsOf(module)) {
    Role role = *findRole(function);
    LinkBytes bytes = predictTraffic(function, mesh);
    if (role == Role::init)
      facts.init.add(bytes);
    if (isEvaluation(role) && !facts.evaluation)
      facts.evaluation.emplace();
    if (role == Role::first_evaluation)
      facts.evaluation->first = bytes;
    if (role == Role::next_evaluation)
      facts.evaluation->next = bytes;
    facts.step.add(bytes, StepFamily(facts.microBatches).countRuns(role));
  }
  if (OuterAttr outer = getOuter(module))
    facts.outer = measureOuter(module, outer, facts.step);
  return facts;
}
