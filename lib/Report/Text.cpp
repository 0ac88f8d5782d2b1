// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Report/Text.h"

#include "fcdp/Report/Bytes.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"

using namespace mlir;
using namespace fcdp;

/// Prints how many buckets are not sharded over all ranks.
static void printSharding(const StorageFacts &storage,
                          llvm::raw_ostream &stream) {
  if (storage.shardedOverNode != 0)
    stream << "; " << storage.shardedOverNode
           << " sharded over a node's ranks only";
  if (storage.replicated != 0)
    stream << "; " << storage.replicated << " replicated on every rank";
}

static void printStorage(const StorageFacts &storage,
                         llvm::raw_ostream &stream) {
  stream << "parameters  " << storage.parameters << " (" << storage.trainable
         << " trainable), " << storage.elements << " elements, ";
  printBytes(storage.bytes, stream);
  stream << "\nbuckets     " << storage.buckets << ", padding ";
  printBytes(storage.padding, stream);
  int64_t stored = storage.bytes + storage.padding;
  if (stored != 0)
    stream << llvm::format(", %.2f %% of what is stored",
                           100.0 * static_cast<double>(storage.padding) /
                               static_cast<double>(stored));
  printSharding(storage, stream);
  if (storage.flat != 0)
    stream << "; " << storage.flat << " with flat collectives";
  stream << '\n';
  if (!storage.boundedMessages.empty())
    stream << "wires       " << storage.boundedMessages
           << ": bytes between nodes are at most those below\n";
}

/// Prints `arena 2624 bytes (2.6 KiB), 1.2 % over the most in use at once`.
static void printRegion(StringRef name, const RegionBytes &region,
                        llvm::raw_ostream &stream) {
  stream << name << ' ';
  printBytes(region.bytes, stream);
  if (region.bound != 0)
    stream << llvm::format(", %.1f %% over the most in use at once",
                           100.0 * static_cast<double>(region.bytes) /
                                   static_cast<double>(region.bound) -
                               100.0);
  stream << '\n';
}

/// Prints `aten.mm.default in @only_microbatch (model.py:12, module 'head')`.
static void printPlace(const OperationPlace &place, llvm::raw_ostream &stream) {
  stream << place.operation << " in @" << place.function;
  SmallVector<std::string> parts;
  if (!place.file.empty())
    parts.push_back((place.file + ":" + Twine(place.line)).str());
  if (!place.module.empty())
    parts.push_back(("module '" + place.module + "'"));
  if (!parts.empty())
    stream << " (" << llvm::join(parts, ", ") << ')';
}

/// Prints the memory that is in use at the operation where the most is in use,
/// and the unused rest: gaps between lifetimes, alignment, and memory that only
/// another function needs.
static void printFullest(const StepFacts &facts, llvm::raw_ostream &stream) {
  if (!facts.fullest)
    return;
  stream << "            in use at ";
  printPlace(*facts.fullest, stream);
  stream << ":\n";
  auto printPart = [&](StringRef name, int64_t bytes) {
    if (bytes == 0)
      return;
    stream << "              " << name << ' ';
    printBytes(bytes, stream);
    stream << '\n';
  };
  const BytesByUse &inUse = facts.device.inUse;
  for (size_t i = 0; i < kMemoryUseCount; ++i)
    printPart(getName(static_cast<MemoryUse>(i)), inUse.bytes[i]);
  printPart("unused", facts.device.total() - inUse.total());
}

static void printMemory(const StepFacts &facts, llvm::raw_ostream &stream) {
  stream << "memory      device ";
  printBytes(facts.device.total(), stream);
  stream << " per rank, host ";
  printBytes(facts.host, stream);
  stream << " per node";
  if (facts.files != 0) {
    stream << ", files ";
    printBytes(facts.files, stream);
    stream << " per rank";
  }
  stream << "\n            ";
  printRegion("arena", facts.device.arena, stream);
  stream << "            ";
  stream << "buffers in it end at ";
  printBytes(facts.device.buffers, stream);
  stream << ", results of operators take ";
  printBytes(facts.device.pool, stream);
  stream << " at once\n";
  printFullest(facts, stream);
}

void fcdp::printFacts(const StepFacts &facts, llvm::raw_ostream &stream) {
  printStorage(facts.storage, stream);
  printMemory(facts, stream);
  printTraffic("step        ", facts.step, stream);
  stream << "            ";
  printBytes(facts.step[LinkId::D2H], stream);
  stream << " to host memory, ";
  printBytes(facts.step[LinkId::H2D], stream);
  stream << " from it\n";
  printSomeSteps(facts.family, stream);
  printTraffic("init, once  ", facts.init, stream);
  printOtherFunctions(facts.family, stream);
  stream << "            what one node sends or copies, over its "
         << facts.ranksPerNode
         << (facts.ranksPerNode == 1 ? " rank\n" : " ranks\n");
}

/// Prints `            no schedule takes less than 3.5 s: compute`.
static void printBound(const StepPrediction &prediction,
                       llvm::raw_ostream &stream) {
  const auto &bounds = prediction.bounds;
  const double *most = llvm::max_element(bounds);
  stream << llvm::format("            no schedule takes less than %.4g s: ",
                         *most)
         << kResourceNames[most - bounds.begin()] << '\n';
}

/// Prints `1.5 s (1.3 to 1.8) a step on h100`, without a range for a step that
/// was measured.
static void printStepTime(const StepPrediction &prediction,
                          llvm::raw_ostream &stream) {
  stream << llvm::format("%.4g s ", prediction.times.seconds);
  if (prediction.scenarios) {
    Range range = prediction.getRange();
    stream << llvm::format("(%.4g to %.4g) ", range.low, range.high);
  }
  stream << "a step on " << prediction.cluster;
}

void fcdp::printExposure(const StepPrediction &prediction,
                         llvm::raw_ostream &stream) {
  const StepTimes &times = prediction.times;
  stream << "predicted   ";
  printStepTime(prediction, stream);
  stream << "; exposed";
  bool isAny = false;
  for (unsigned i = 0; i < kNumActivities; ++i) {
    // Less than a thousandth of the step is not printed.
    if (times.exposed[i] < times.seconds / 1000)
      continue;
    stream << (isAny ? ", " : " ")
           << stringifyActivity(static_cast<Activity>(i))
           << llvm::format(" %.4g s", times.exposed[i]);
    isAny = true;
  }
  stream << (isAny ? "" : " nothing") << '\n';
  printSomeStepsTime(times.occasionalSeconds, stream);
  printBound(prediction, stream);
  printFamilyTimes(prediction.family, stream);
}

/// Prints `  optimizer 0.12 s, 3.4 %`, or nothing if `seconds` is 0.
static void printPart(llvm::Twine name, double seconds, double whole,
                      llvm::raw_ostream &stream) {
  if (seconds > 0)
    stream << "              " << name
           << llvm::format(" %.4g s, %.1f %%\n", seconds,
                           100 * seconds / whole);
}

static void printTimes(const StepPrediction &prediction,
                       llvm::raw_ostream &stream) {
  const StepTimes &times = prediction.times;
  stream << "time        ";
  printStepTime(prediction, stream);
  stream << ":\n";
  for (unsigned i = 0; i < kNumActivities; ++i)
    printPart(stringifyActivity(static_cast<Activity>(i)),
              prediction.times.onCompute[i], times.seconds, stream);
  for (unsigned i = 0; i < kNumActivities; ++i)
    printPart("exposed " + stringifyActivity(static_cast<Activity>(i)),
              times.exposed[i], times.seconds, stream);
  printPart("bubble", prediction.bubble, times.seconds, stream);
  printSomeStepsTime(times.occasionalSeconds, stream);
  printBound(prediction, stream);
  printFamilyTimes(prediction.family, stream);
}

static void printRates(const StepFacts &facts, const StepPrediction &prediction,
                       llvm::raw_ostream &stream) {
  const TokenFacts &tokens = prediction.tokens;
  int64_t ranks = facts.nodes * facts.ranksPerNode;
  stream << "tokens      ";
  if (tokens.input.empty()) {
    stream << "not counted: no input is of integers\n";
  } else {
    double rate = prediction.getTokensPerSecond();
    stream << llvm::format("%.4g a second, %.4g of them a rank; ", rate,
                           rate / static_cast<double>(ranks))
           << tokens.perStep << " a step: " << tokens.perMicroBatch << " of '"
           << tokens.input << "' x " << ranks << " ranks x "
           << facts.microBatches << " micro-batches\n";
  }
  stream << llvm::format(
      "utilization MFU %.1f %%, HFU %.1f %%; %.4g FLOPs of the model a rank "
      "and step, %.4g executed\n",
      100 * prediction.getMfu(), 100 * prediction.getHfu(),
      prediction.model.count, prediction.executed.count);
}

/// Prints `device 80 bytes a rank: fits`.
static void printFit(llvm::StringRef name, int64_t capacity,
                     llvm::StringRef each, bool fits,
                     llvm::raw_ostream &stream) {
  stream << name << ' ';
  printBytes(capacity, stream);
  stream << ' ' << each << (fits ? ": fits" : ": does not fit");
}

/// Prints the reserved bytes of a device and their reasons, or nothing if there
/// are none.
static void printReserved(const DeviceCapacity &capacity,
                          llvm::raw_ostream &stream) {
  if (capacity.getTotal() == capacity.usable)
    return;
  stream << "            the rest of a device's ";
  printBytes(capacity.getTotal(), stream);
  stream << " is reserved:\n";
  for (unsigned i = 0; i < kNumReserveUses; ++i) {
    if (capacity.reserved[i] == 0)
      continue;
    auto use = static_cast<ReserveUse>(i);
    stream << "              " << stringifyReserveUse(use) << ' ';
    printBytes(capacity.reserved[i], stream);
    stream << ", " << explainReserveUse(use) << '\n';
  }
}

static void printHostStates(const BytesByUse &inUse,
                            llvm::raw_ostream &stream) {
  for (size_t i = 0; i < kMemoryUseCount; ++i) {
    if (inUse.bytes[i] == 0)
      continue;
    stream << "            host: " << getName(static_cast<MemoryUse>(i)) << ' ';
    printBytes(inUse.bytes[i], stream);
    stream << '\n';
  }
}

/// Prints `4 ranks took 3.1 to 3.5 s, median 3.2 s; rank 2 is shown`.
static void printSpread(const RankSpread &spread, llvm::raw_ostream &stream) {
  stream << "            " << spread.ranks
         << (spread.ranks == 1 ? " rank" : " ranks")
         << llvm::format(" took %.4g to %.4g s, median %.4g s; rank ",
                         spread.least, spread.most, spread.median)
         << spread.shown << " is shown\n";
}

void fcdp::printReport(const StepReport &report, llvm::raw_ostream &stream) {
  printFacts(report.facts, stream);
  stream << "capacity    ";
  printFit("device", report.capacity.device.usable, "a rank",
           report.fitsDevice(), stream);
  stream << ", ";
  printFit("host", report.capacity.host, "a node", report.fitsHost(), stream);
  stream << '\n';
  printReserved(report.capacity.device, stream);
  printHostStates(report.facts.hostInUse, stream);
  printTimes(report.prediction, stream);
  if (report.spread)
    printSpread(*report.spread, stream);
  printRates(report.facts, report.prediction, stream);
}
