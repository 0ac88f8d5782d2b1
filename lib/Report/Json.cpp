// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Report/Json.h"

#include "fcdp/Report/Bytes.h"
#include "llvm/ADT/STLExtras.h"

using namespace fcdp;
using llvm::json::OStream;

/// Returns the activity's name as a JSON key.
static std::string getKey(Activity activity) {
  std::string key = stringifyActivity(activity).str();
  llvm::replace(key, ' ', '_');
  return key;
}

static void writeSeconds(OStream &json, llvm::StringRef name,
                         const std::array<double, kNumActivities> &seconds) {
  json.attributeObject(name, [&] {
    for (unsigned i = 0; i < kNumActivities; ++i)
      if (seconds[i] > 0)
        json.attribute(getKey(static_cast<Activity>(i)), seconds[i]);
  });
}

static void writeRange(OStream &json, const StepPrediction &prediction) {
  const ScenarioTimes &scenarios = *prediction.scenarios;
  Range range = prediction.getRange();
  json.attribute("low", range.low);
  json.attribute("high", range.high);
  json.attribute("mean", findMean(scenarios));
  json.attributeObject("scenarios", [&] {
    for (unsigned i = 0; i < kNumCostInputs; ++i)
      if (scenarios.slower[i] != scenarios.nominal ||
          scenarios.faster[i] != scenarios.nominal)
        json.attributeArray(stringifyCostInput(static_cast<CostInput>(i)), [&] {
          json.value(scenarios.slower[i]);
          json.value(scenarios.faster[i]);
        });
  });
}

static void writeComparison(OStream &json, const StepComparison &compared) {
  json.attributeObject("compared", [&] {
    json.attribute("best", compared.best);
    json.attribute("is_best", compared.isBest);
    json.attribute("ratio", compared.ratio.nominal);
    json.attribute("low", compared.ratio.range.low);
    json.attribute("high", compared.ratio.range.high);
    json.attribute("told_apart", compared.ratio.isCertain());
  });
}

static void writeTime(OStream &json, const StepPrediction &prediction) {
  json.attribute("seconds", prediction.times.seconds);
  if (prediction.scenarios)
    writeRange(json, prediction);
  writeSeconds(json, "on_compute_stream", prediction.times.onCompute);
  writeSeconds(json, "busy", prediction.times.busy);
  writeSeconds(json, "exposed", prediction.times.exposed);
  json.attribute("bubble", prediction.bubble);
  json.attributeObject("bounds", [&] {
    for (unsigned i = 0; i < kNumResources; ++i)
      if (static_cast<Resource>(i) != Resource::host ||
          prediction.bounds[i] > 0)
        json.attribute(kResourceNames[i], prediction.bounds[i]);
  });
}

static void writeSpread(OStream &json, const RankSpread &spread) {
  json.attributeObject("ranks", [&] {
    json.attribute("count", spread.ranks);
    json.attribute("shown", spread.shown);
    json.attribute("least", spread.least);
    json.attribute("median", spread.median);
    json.attribute("most", spread.most);
  });
}

static void writeRates(OStream &json, const StepPrediction &prediction) {
  const TokenFacts &tokens = prediction.tokens;
  if (!tokens.input.empty())
    json.attributeObject("tokens", [&] {
      json.attribute("input", tokens.input);
      json.attribute("per_micro_batch", tokens.perMicroBatch);
      json.attribute("per_step", tokens.perStep);
      json.attribute("per_second", prediction.getTokensPerSecond());
    });
  json.attributeObject("flops", [&] {
    json.attribute("model", prediction.model.count);
    json.attribute("executed", prediction.executed.count);
    json.attribute("mfu", prediction.getMfu());
    json.attribute("hfu", prediction.getHfu());
  });
}

static void writeInUse(OStream &json, const BytesByUse &inUse) {
  json.attributeObject("in_use", [&] {
    for (size_t i = 0; i < kMemoryUseCount; ++i)
      if (inUse.bytes[i] != 0)
        json.attribute(getName(static_cast<MemoryUse>(i)), inUse.bytes[i]);
  });
}

static void writePlace(OStream &json, const OperationPlace &place) {
  json.attributeObject("at", [&] {
    json.attribute("operation", place.operation);
    json.attribute("function", place.function);
    if (!place.file.empty()) {
      json.attribute("file", place.file);
      json.attribute("line", int64_t(place.line));
    }
    if (!place.module.empty())
      json.attribute("module", place.module);
  });
}

static void writeReserved(OStream &json, const DeviceCapacity &capacity) {
  json.attributeObject("reserved", [&] {
    for (unsigned i = 0; i < kNumReserveUses; ++i)
      if (capacity.reserved[i] != 0)
        json.attribute(stringifyReserveUse(static_cast<ReserveUse>(i)),
                       capacity.reserved[i]);
  });
}

static void writeMemory(OStream &json, const StepReport &report) {
  const DeviceMemory &device = report.facts.device;
  json.attributeObject("device_memory", [&] {
    json.attribute("bytes", device.total());
    json.attribute("arena", device.arena.bytes);
    json.attribute("buffers", device.buffers);
    json.attribute("pool", device.pool);
    json.attribute("inputs", device.inputs);
    json.attribute("capacity", report.capacity.device.usable);
    json.attribute("fits", report.fitsDevice());
    writeReserved(json, report.capacity.device);
    if (report.facts.fullest)
      writePlace(json, *report.facts.fullest);
    writeInUse(json, device.inUse);
  });
  json.attributeObject("host_memory", [&] {
    json.attribute("bytes", report.facts.host);
    json.attribute("capacity", report.capacity.host);
    json.attribute("fits", report.fitsHost());
    writeInUse(json, report.facts.hostInUse);
  });
  if (report.facts.files != 0)
    json.attribute("file_bytes", report.facts.files);
}

static void writeStorage(OStream &json, const StorageFacts &storage) {
  json.attributeObject("storage", [&] {
    json.attribute("parameters", storage.parameters);
    json.attribute("trainable", storage.trainable);
    json.attribute("elements", storage.elements);
    json.attribute("bytes", storage.bytes);
    json.attribute("padding", storage.padding);
  });
}

static void writeChoices(OStream &json, const BucketFacts &bucket) {
  json.attributeObject("choices", [&] {
    for (unsigned i = 0; i < kNumResidencies; ++i)
      if (const auto &choice = bucket.choices[i])
        json.attributeObject(stringifyResidency(static_cast<Residency>(i)),
                             [&] {
                               json.attribute("seconds", choice->seconds);
                               json.attribute("device", choice->device);
                               json.attribute("host", choice->host);
                             });
  });
}

static void writeBucket(OStream &json, const BucketFacts &bucket,
                        llvm::StringRef strategy) {
  json.object([&] {
    json.attribute("name", bucket.name);
    json.attribute("unit", bucket.unit);
    json.attribute("trainable", bucket.isTrainable);
    json.attribute("bytes", bucket.bytes);
    json.attribute("sharding", stringifySharding(bucket.sharding));
    json.attribute("residency", stringifyResidency(bucket.residency));
    json.attribute("carry", stringifyResidency(bucket.carry));
    if (bucket.isTrainable)
      json.attribute("accumulation",
                     stringifyAccumulation(bucket.accumulation));
    json.attribute("collectives", stringifyCollectives(bucket.collectives));
    for (auto [attribute, form] : bucket.messages)
      json.attribute(attribute, form);
    json.attribute("why", explain(bucket, strategy));
    writeChoices(json, bucket);
  });
}

void fcdp::writeReport(const StepReport &report, OStream &json) {
  const StepFacts &facts = report.facts;
  json.attribute("input", report.input);
  json.attribute("strategy", facts.strategy);
  json.attribute("cluster", report.prediction.cluster);
  json.attribute("nodes", facts.nodes);
  json.attribute("ranks_per_node", facts.ranksPerNode);
  json.attribute("micro_batches", facts.microBatches);
  writeSomeSteps(json, facts.family, report.prediction.times.occasionalSeconds);
  writeTime(json, report.prediction);
  if (report.comparison)
    writeComparison(json, *report.comparison);
  if (report.spread)
    writeSpread(json, *report.spread);
  writeRates(json, report.prediction);
  writeStorage(json, facts.storage);
  writeMemory(json, report);
  json.attributeObject("bytes", [&] {
    writeTraffic(json, "step", facts.step);
    writeTraffic(json, "init", facts.init);
    writeBytes(json, facts.family);
  });
  writeShapes(json, facts.family, report.prediction.family);
  json.attributeArray("buckets", [&] {
    for (const BucketFacts &bucket : report.buckets)
      writeBucket(json, bucket, facts.strategy);
  });
}
