// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Conversion/Manifest.h"

#include "BufferWrites.h"
#include "Calls.h"
#include "ConstantTable.h"
#include "HeldWriter.h"
#include "OpWriter.h"
#include "Slots.h"
#include "SymbolWriter.h"
#include "fcdp/Analysis/Traffic.h"
#include "fcdp/Planning/Memory/DeviceMemory.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/SHA1.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace fcdp;

namespace {
/// The version of docs/manifest.md.
constexpr int64_t kManifestVersion = 3;
constexpr size_t kHashDigits = 40;
/// The text starts so; the hash follows.
constexpr llvm::StringLiteral kBeforeHash = "{\"hash\":\"";

class ManifestWriter {
public:
  ManifestWriter(ModuleOp module, const Places &places, const SlotTable &slots,
                 const ConstantTable &constants, ArrayRef<RuntimeCall> calls,
                 llvm::raw_ostream &stream)
      : module(module), slots(slots), constants(constants), calls(calls),
        json(stream), symbols(module, places, json),
        ops(module, places, slots, json) {}

  LogicalResult write();

private:
  LogicalResult writeKeys();
  LogicalResult writeHead();
  LogicalResult writeFunctions();
  void writeExpected();
  void writeEvents();
  LogicalResult writeOps();

  ModuleOp module;
  const SlotTable &slots;
  const ConstantTable &constants;
  ArrayRef<RuntimeCall> calls;
  llvm::json::OStream json;
  SymbolWriter symbols;
  OpWriter ops;
};
} // namespace

static StringRef getRole(func::FuncOp function) {
  return stringifyRole(function->getAttrOfType<RoleAttr>(kRoleAttr).getValue());
}

LogicalResult ManifestWriter::writeHead() {
  auto microBatches = module->getAttrOfType<IntegerAttr>(kMicroBatchesAttr);
  if (!microBatches)
    return module.emitError("expected the attribute '")
           << kMicroBatchesAttr << "'";
  auto strategy = module->getAttrOfType<StringAttr>(kStrategyAttr);
  MeshOp mesh = getMesh(module);
  auto target = module->getAttrOfType<StringAttr>(kTargetAttr);
  json.attribute("version", kManifestVersion);
  json.attribute("target", target ? target.getValue() : "cpu");
  json.attribute("strategy", strategy ? strategy.getValue() : "");
  json.attributeObject("mesh", [&] {
    json.attribute("nodes", static_cast<int64_t>(mesh.getNode()));
    json.attribute("local", static_cast<int64_t>(mesh.getLocal()));
  });
  json.attribute("micro_batches", microBatches.getInt());
  return success();
}

LogicalResult ManifestWriter::writeFunctions() {
  json.attributeArray("functions", [&] {
    for (auto function : module.getOps<func::FuncOp>())
      json.value(getRole(function));
  });
  FailureOr<DeviceMemory> memory = measureDeviceMemory(module);
  if (failed(memory))
    return failure();
  ArenaBytes arenas = measureArenas(module);
  json.attributeObject("arenas", [&] {
    json.attribute("device", std::max(static_cast<int64_t>(arenas.device),
                                      memory->arena.bytes));
    json.attribute("host", arenas.host);
  });
  json.attributeObject("planned", [&] {
    json.attribute("device_bytes", memory->total());
    json.attribute("pool_bytes", memory->pool);
    json.attribute("input_bytes", memory->inputs);
  });
  return writeHeld(module, *memory, calls, json);
}

void ManifestWriter::writeEvents() {
  int64_t events = 0;
  for (const RuntimeCall &call : calls)
    if (auto record = dyn_cast<RecordOp>(call.op); record && record.getEvent())
      events = std::max<int64_t>(events, *record.getEvent() + 1);
  json.attribute("events", events);
}

void ManifestWriter::writeExpected() {
  json.attributeObject("expected", [&] {
    for (auto function : module.getOps<func::FuncOp>()) {
      LinkBytes bytes = predictTraffic(function, getMesh(module));
      json.attributeObject(getRole(function), [&] {
        json.attribute("inter_bytes", bytes.inter);
        json.attribute("intra_bytes", bytes.intra);
        json.attribute("h2d_bytes", bytes.hostToDevice);
        json.attribute("d2h_bytes", bytes.deviceToHost);
      });
    }
  });
}

LogicalResult ManifestWriter::writeOps() {
  LogicalResult result = success();
  json.attributeArray("ops", [&] {
    for (const RuntimeCall &call : calls)
      if (failed(ops.write(call)))
        result = failure();
  });
  return result;
}

LogicalResult ManifestWriter::writeKeys() {
  json.attribute("hash", std::string(kHashDigits, '0'));
  if (failed(writeHead()) || failed(symbols.writeOptimizer()))
    return failure();
  if (failed(writeFunctions()) || failed(symbols.writeParameters()) ||
      failed(symbols.writeBuckets()) ||
      failed(symbols.writeBuffers(constants)) ||
      failed(symbols.writeInputs()) || failed(slots.write(json)))
    return failure();
  writeEvents();
  writeExpected();
  return writeOps();
}

LogicalResult ManifestWriter::write() {
  LogicalResult result = success();
  json.object([&] { result = writeKeys(); });
  return result;
}

/// Puts the hash of `text`, which has zeros in its place, in.
static void insertHash(std::string &text) {
  std::string hash =
      llvm::toHex(llvm::SHA1::hash(llvm::arrayRefFromStringRef(text)),
                  /*LowerCase=*/true);
  text.replace(kBeforeHash.size(), kHashDigits, hash);
}

static LogicalResult checkModule(ModuleOp module) {
  if (getPhase(module) != Phase::planned)
    return module.emitError("expected a module in phase 'planned'; run "
                            "--fcdp-pipeline first");
  if (!getMesh(module))
    return module.emitError("expected a mesh");
  return success();
}

FailureOr<Manifest> fcdp::buildManifest(ModuleOp module,
                                        TensorReader readTensor) {
  if (failed(checkModule(module)))
    return failure();
  FailureOr<Places> places = Places::compute(module);
  if (failed(places))
    return failure();
  FailureOr<std::vector<RuntimeCall>> calls = collectCalls(module, *places);
  if (failed(calls))
    return failure();
  for (auto function : module.getOps<func::FuncOp>())
    if (failed(verifyBufferWrites(function)))
      return failure();
  FailureOr<ConstantTable> constants = ConstantTable::read(module, readTensor);
  if (failed(constants))
    return failure();

  Manifest manifest;
  SlotTable slots(module, *places, *calls);
  llvm::raw_string_ostream stream(manifest.text);
  if (failed(ManifestWriter(module, *places, slots, *constants, *calls, stream)
                 .write()))
    return failure();
  insertHash(manifest.text);
  manifest.constants = std::move(constants->bytes);
  manifest.calls = std::move(*calls);
  return manifest;
}
