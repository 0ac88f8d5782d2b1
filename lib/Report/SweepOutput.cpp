// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Report/SweepOutput.h"

#include "Table.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"

using namespace fcdp;

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

/// Describes a point by its swept parameters other than `but`: `strategy zero3,
/// 4 nodes`.
static std::string describe(const Sweep &sweep, const SweepPoint &point,
                            llvm::ArrayRef<SweepKey> but,
                            bool hasInput = true) {
  std::vector<std::string> parts;
  if (hasInput && sweep.inputs.size() > 1)
    parts.push_back(sweep.inputs[point.input]);
  for (const SweepAxis &axis : sweep.axes) {
    if (llvm::is_contained(but, axis.key))
      continue;
    switch (axis.key) {
    case SweepKey::strategies:
      parts.push_back("strategy " + point.strategy);
      break;
    case SweepKey::options:
      parts.push_back("options " + point.options);
      break;
    case SweepKey::nodes:
      parts.push_back(std::to_string(point.nodes) + " nodes");
      break;
    case SweepKey::ranks:
      parts.push_back(std::to_string(point.ranks) + " ranks a node");
      break;
    case SweepKey::microBatches:
      parts.push_back(std::to_string(point.microBatches) + " micro-batches");
      break;
    case SweepKey::bandwidth:
      parts.push_back(printNumber(point.bandwidth) + " bytes/s");
      break;
    case SweepKey::memory:
      parts.push_back("devices of " + printNumber(point.memory) + " bytes");
    }
  }
  return parts.empty() ? "this step" : llvm::join(parts, ", ");
}

static std::string printValue(const SweepPoint &point, SweepKey key) {
  switch (key) {
  case SweepKey::strategies:
    return point.strategy;
  case SweepKey::options:
    return point.options;
  case SweepKey::nodes:
    return std::to_string(point.nodes);
  case SweepKey::ranks:
    return std::to_string(point.ranks);
  case SweepKey::microBatches:
    return std::to_string(point.microBatches);
  case SweepKey::bandwidth:
    return printNumber(point.bandwidth);
  case SweepKey::memory:
    return printNumber(point.memory);
  }
  llvm_unreachable("unknown key");
}

static TableRow makeHeader(const Sweep &sweep) {
  TableRow row;
  if (sweep.inputs.size() > 1)
    row.push_back("input");
  for (const SweepAxis &axis : sweep.axes)
    row.push_back(stringifySweepKey(axis.key).str());
  for (const char *name : {"s/step", "8 of 10 within", "tokens/s", "MFU %",
                           "exposed %", "device GiB", "host GiB", "notes"})
    row.push_back(name);
  return row;
}

/// Returns the last column of a point's row.
static std::string makeNotes(const SweepResult &result) {
  if (!result.failure.empty())
    return "no plan: " + result.failure;
  if (!result.fits)
    return "does not fit";
  std::string notes = "fits";
  if (result.isBest)
    notes += ", fastest";
  if (result.isAsFast)
    notes += ", not told apart from the fastest";
  if (result.isOnFrontier)
    notes += ", frontier";
  return notes;
}

static TableRow makeRow(const Sweep &sweep, const SweepResult &result) {
  TableRow row;
  if (sweep.inputs.size() > 1)
    row.push_back(sweep.inputs[result.point.input]);
  for (const SweepAxis &axis : sweep.axes)
    row.push_back(printValue(result.point, axis.key));
  if (result.failure.empty())
    for (std::string number :
         {printNumber(result.seconds),
          printNumber(result.range.low) + " to " +
              printNumber(result.range.high),
          printNumber(result.tokensPerSecond),
          printNumber(100 * result.mfu, "%.1f"),
          printNumber(result.seconds > 0
                          ? 100 * result.exposedInter / result.seconds
                          : 0,
                      "%.1f"),
          printNumber(result.device / 0x1p30, "%.2f"),
          printNumber(result.host / 0x1p30, "%.2f")})
      row.push_back(std::move(number));
  else
    row.insert(row.end(), 7, "-");
  row.push_back(makeNotes(result));
  return row;
}

static void printHidden(const Sweep &sweep, llvm::raw_ostream &stream) {
  if (sweep.hidden.empty())
    return;
  stream << "\nCollectives between nodes hold compute back for less than "
         << printNumber(100 * kHidden) << " % of a step\n";
  for (const HiddenFrom &hidden : sweep.hidden) {
    // A plan that does not depend on the bandwidth does not depend on the
    // memory either.
    constexpr SweepKey keys[] = {SweepKey::bandwidth, SweepKey::memory};
    llvm::ArrayRef<SweepKey> but(keys);
    stream << "  with "
           << describe(sweep, hidden.point,
                       hidden.isOfPoints ? but.take_front() : but)
           << ": ";
    if (hidden.bandwidth)
      stream << "from " << printNumber(*hidden.bandwidth) << " bytes/s on"
             << (hidden.isOfPoints ? ", of those swept\n" : "\n");
    else
      stream << "nowhere in the range\n";
  }
}

static void printLargest(const Sweep &sweep, llvm::raw_ostream &stream) {
  if (sweep.largest.empty())
    return;
  stream << "\nThe largest that fits\n";
  for (const LargestInput &largest : sweep.largest) {
    stream << "  with "
           << describe(sweep, largest.point, {}, /*hasInput=*/false) << ": ";
    if (!largest.batch) {
      stream << "none\n";
      continue;
    }
    const SweepResult &batch = sweep.results[*largest.batch],
                      &model = sweep.results[*largest.model];
    stream << "batch " << sweep.inputs[batch.point.input] << " ("
           << batch.tokens << " tokens a micro-batch), model "
           << sweep.inputs[model.point.input] << " (" << model.elements
           << " parameters)\n";
  }
}

void fcdp::printSweep(const Sweep &sweep, llvm::raw_ostream &stream) {
  std::vector<TableRow> rows{makeHeader(sweep)};
  for (const SweepResult &result : sweep.results)
    rows.push_back(makeRow(sweep, result));
  printTable(rows, stream);
  printHidden(sweep, stream);
  printLargest(sweep, stream);
}

//===----------------------------------------------------------------------===//
// JSON
//===----------------------------------------------------------------------===//

static void writePoint(const Sweep &sweep, const SweepPoint &point,
                       llvm::json::OStream &json) {
  json.attribute("input", sweep.inputs[point.input]);
  json.attribute("strategy", point.strategy);
  json.attribute("options", point.options);
  json.attribute("nodes", point.nodes);
  json.attribute("ranks_per_node", point.ranks);
  json.attribute("micro_batches", point.microBatches);
  json.attribute("bandwidth", point.bandwidth);
  json.attribute("memory", point.memory);
}

static void writeResult(const Sweep &sweep, const SweepResult &result,
                        llvm::json::OStream &json) {
  writePoint(sweep, result.point, json);
  if (!result.failure.empty()) {
    json.attribute("failure", result.failure);
    return;
  }
  json.attribute("tokens", result.tokens);
  json.attribute("sequence", result.sequence);
  json.attribute("seconds", result.seconds);
  json.attribute("low", result.range.low);
  json.attribute("high", result.range.high);
  json.attribute("tokens_per_second", result.tokensPerSecond);
  json.attribute("mfu", result.mfu);
  json.attribute("exposed_inter", result.exposedInter);
  json.attribute("device_bytes", result.device);
  json.attribute("host_bytes", result.host);
  json.attribute("fits", result.fits);
  json.attribute("fastest", result.isBest);
  json.attribute("as_fast", result.isAsFast);
  json.attribute("frontier", result.isOnFrontier);
}

void fcdp::writeSweep(const Sweep &sweep, llvm::json::OStream &json) {
  json.attributeArray("points", [&] {
    for (const SweepResult &result : sweep.results)
      json.object([&] { writeResult(sweep, result, json); });
  });
  json.attributeArray("hidden_from", [&] {
    for (const HiddenFrom &hidden : sweep.hidden)
      json.object([&] {
        SweepPoint point = hidden.point;
        point.bandwidth = hidden.bandwidth.value_or(0);
        writePoint(sweep, point, json);
        json.attribute("found", hidden.bandwidth.has_value());
        json.attribute("of_points", hidden.isOfPoints);
      });
  });
  json.attributeArray("largest", [&] {
    for (const LargestInput &largest : sweep.largest)
      json.object([&] {
        writePoint(sweep, largest.point, json);
        if (!largest.batch)
          return;
        json.attribute("batch", int64_t(*largest.batch));
        json.attribute("sequence", int64_t(*largest.sequence));
        json.attribute("fastest", int64_t(*largest.fastest));
        json.attribute("model", int64_t(*largest.model));
      });
  });
}
