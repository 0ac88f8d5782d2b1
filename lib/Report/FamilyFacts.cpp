// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Report/FamilyFacts.h"

#include "fcdp/Analysis/StepFunctions.h"
#include "fcdp/Report/Bytes.h"
#include "fcdp/Simulation/StepProgram.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/Format.h"

using namespace mlir;
using namespace fcdp;
using llvm::json::OStream;

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

static FamilyFacts::OuterFacts measureOuter(ModuleOp module, OuterAttr outer,
                                            const LinkBytes &step) {
  FamilyFacts::OuterFacts facts;
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

FamilyFacts fcdp::measureFamily(ModuleOp module, const DeviceMemory &device,
                                const LinkBytes &step) {
  FamilyFacts facts;
  int64_t variants = countVariants(module);
  for (int64_t variant = 0; variants > 1 && variant < variants; ++variant)
    facts.variants.push_back(measureVariant(module, device, variant, variants));
  MeshOp mesh = getMesh(module);
  if (func::FuncOp first = findFunction(module, Role::first_evaluation))
    facts.evaluation = {
        predictTraffic(first, mesh),
        predictTraffic(findFunction(module, Role::next_evaluation), mesh)};
  if (OuterAttr outer = getOuter(module))
    facts.outer = measureOuter(module, outer, step);
  return facts;
}

FamilyTimes fcdp::timeFamily(ModuleOp module, const Cluster &cluster,
                             double seconds) {
  FamilyTimes times;
  int64_t variants = countVariants(module);
  for (int64_t variant = 0; variant + 1 < variants; ++variant)
    times.variantSeconds.push_back(
        simulateStep(
            makeStepProgram(module, cluster, getFunctionsOf(module, variant)))
            .seconds);
  if (variants > 1)
    times.variantSeconds.push_back(seconds);
  return times;
}

void fcdp::printOtherFunctions(const FamilyFacts &facts,
                               llvm::raw_ostream &stream) {
  for (auto [i, variant] : llvm::enumerate(facts.variants)) {
    stream << llvm::format("variant %-4zu", i) << variant.inputs << ": ";
    printBytes(variant.step[LinkId::Inter], stream);
    stream << " between nodes a step, ";
    printBytes(variant.deviceBytes, stream);
    stream << " of a device\n";
  }
  if (!facts.evaluation)
    return;
  printTraffic("evaluation  ", facts.evaluation->first, stream);
  printTraffic("further     ", facts.evaluation->next, stream);
}

void fcdp::printSomeSteps(const FamilyFacts &facts, llvm::raw_ostream &stream) {
  if (!facts.outer)
    return;
  const FamilyFacts::OuterFacts &outer = *facts.outer;
  stream << "outer steps ";
  printBytes(outer.updates[LinkId::Inter], stream);
  stream << " between nodes in " << outer.every
         << (outer.every == 1 ? " step" : " steps");
  if (outer.fragments > 1)
    stream << ", in " << outer.fragments << " fragments";
  stream << ": " << outer.perStep << " bytes a step";
  if (outer.exactPerStep != 0)
    stream << llvm::format(", %.3g %% of the ",
                           100.0 * static_cast<double>(outer.perStep) /
                               static_cast<double>(outer.exactPerStep))
           << outer.exactPerStep << " of exact training";
  stream << '\n';
}

void fcdp::printSomeStepsTime(double seconds, llvm::raw_ostream &stream) {
  if (seconds > 0)
    stream << llvm::format(
        "            outer steps take %.4g s of it on average\n", seconds);
}

void fcdp::printFamilyTimes(const FamilyTimes &times,
                            llvm::raw_ostream &stream) {
  for (auto [i, seconds] : llvm::enumerate(times.variantSeconds))
    stream << "            variant " << i
           << llvm::format(" takes %.4g s\n", seconds);
}

void fcdp::writeSomeSteps(OStream &json, const FamilyFacts &facts,
                          double seconds) {
  if (!facts.outer)
    return;
  json.attribute("outer_every", facts.outer->every);
  json.attribute("outer_fragments", facts.outer->fragments);
  json.attribute("outer_seconds", seconds);
}

void fcdp::writeBytes(OStream &json, const FamilyFacts &facts) {
  if (facts.outer) {
    writeTraffic(json, "outer_updates", facts.outer->updates);
    json.attribute("inter_per_step", facts.outer->perStep);
    json.attribute("exact_inter_per_step", facts.outer->exactPerStep);
  }
  if (facts.evaluation) {
    writeTraffic(json, "first_evaluation", facts.evaluation->first);
    writeTraffic(json, "next_evaluation", facts.evaluation->next);
  }
}

void fcdp::writeShapes(OStream &json, const FamilyFacts &facts,
                       const FamilyTimes &times) {
  const std::vector<VariantFacts> &variants = facts.variants;
  if (variants.empty())
    return;
  json.attributeArray("variants", [&] {
    for (size_t i = 0; i < variants.size(); ++i)
      json.object([&] {
        json.attribute("inputs", variants[i].inputs);
        json.attribute("device_memory", variants[i].deviceBytes);
        writeTraffic(json, "bytes", variants[i].step);
        if (i < times.variantSeconds.size())
          json.attribute("seconds", times.variantSeconds[i]);
      });
  });
}
