// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Cluster/TableImport.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"

#include <map>
#include <tuple>

using namespace fcdp;

namespace {
using Key = std::tuple<RankSet, CollectiveKind, int64_t, double>;
} // namespace

static double getMedian(std::vector<double> values) {
  llvm::sort(values);
  size_t middle = values.size() / 2;
  return values.size() % 2 ? values[middle]
                           : (values[middle - 1] + values[middle]) / 2;
}

static llvm::SmallVector<CollectiveKind, 2> getKinds(NcclProgram program) {
  switch (program) {
  case NcclProgram::allGather:
    return {CollectiveKind::allGather};
  case NcclProgram::reduceScatter:
    return {CollectiveKind::reduceScatter};
  case NcclProgram::allReduce:
    // Half of the time corresponds to the bus bandwidth of the whole.
    return {CollectiveKind::allGather, CollectiveKind::reduceScatter};
  }
  llvm_unreachable("unknown program");
}

/// Adds the medians of the rows of these tests.
static void addRows(CollectiveTables &tables,
                    llvm::ArrayRef<const NcclTest *> tests) {
  std::map<Key, std::vector<double>> rates;
  for (const NcclTest *test : tests)
    for (CollectiveKind kind : getKinds(test->program))
      for (const NcclTest::Row &row : test->rows)
        rates[{test->set, kind, test->nodes, row.bytes}].push_back(
            row.busBandwidth);
  for (const auto &[key, values] : rates) {
    auto [set, kind, nodes, bytes] = key;
    tables.get(set).get(kind).set(nodes, bytes, getMedian(values));
  }
}

llvm::Expected<ImportedTables> fcdp::tabulate(llvm::ArrayRef<NcclTest> tests) {
  ImportedTables imported;
  std::vector<const NcclTest *> gathersAndReductions, allReduces;
  for (const NcclTest &test : tests) {
    int64_t &ranks = imported.tables.ranksPerNode;
    if (ranks != 0 && ranks != test.ranksPerNode)
      return llvm::createStringError(
          llvm::formatv("expected {0} ranks a node in all logs, got {1}", ranks,
                        test.ranksPerNode));
    ranks = test.ranksPerNode;
    (test.program == NcclProgram::allReduce ? allReduces : gathersAndReductions)
        .push_back(&test);
  }
  addRows(imported.tables, gathersAndReductions);
  llvm::erase_if(allReduces, [&](const NcclTest *test) {
    return !imported.tables.get(test->set).empty();
  });
  addRows(imported.tables, allReduces);
  for (const NcclTest *test : allReduces)
    imported.halves.insert(test->set);
  return imported;
}

static void printTable(const BusTable &table, llvm::raw_ostream &stream) {
  for (const auto &[nodes, curve] : table.getCurves())
    for (const RateCurve::Point &point : curve.points)
      stream << "      - [" << llvm::format("%.15g", point.size) << ", "
             << nodes << ", " << llvm::format("%.4g", point.rate) << "]\n";
}

std::string fcdp::toYaml(const ImportedTables &imported,
                         llvm::StringRef source) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  stream
      << "collectives: # rows of [bytes, nodes, bytes per second of a rank]\n"
      << "  # " << source << '\n';
  for (RankSet set : kRankSets) {
    const CollectiveTables::Kinds &kinds = imported.tables.get(set);
    if (kinds.empty())
      continue;
    stream << "  " << stringify(set) << ":";
    if (imported.halves.count(set))
      stream << " # of an all-reduce, half of its time for each";
    stream << '\n';
    for (CollectiveKind kind : kCollectiveKinds) {
      if (kinds.get(kind).empty())
        continue;
      stream << "    " << stringify(kind) << ":\n";
      printTable(kinds.get(kind), stream);
    }
  }
  return text;
}

/// Adds the rows of `from` that `to` does not have.
static void addMissing(CollectiveTables &to, const CollectiveTables &from) {
  for (RankSet set : kRankSets)
    for (CollectiveKind kind : kCollectiveKinds) {
      BusTable merged = from.get(set).get(kind);
      for (const auto &[nodes, curve] : to.get(set).get(kind).getCurves())
        for (const RateCurve::Point &point : curve.points)
          merged.set(nodes, point.size, point.rate);
      to.get(set).get(kind) = merged;
    }
}

/// Returns whether a line continues the value of a key before it.
static bool isValue(llvm::StringRef line) {
  return !line.trim().empty() &&
         llvm::StringRef(" \t]}").contains(line.front());
}

/// Removes the key `collectives` and its value, so that comments before the
/// next key stay.
static std::string withoutTables(llvm::StringRef text) {
  llvm::SmallVector<llvm::StringRef> lines;
  text.split(lines, '\n');
  auto key = llvm::find_if(lines, [](llvm::StringRef line) {
    return line.starts_with("collectives:");
  });
  if (key != lines.end()) {
    auto last = key;
    for (auto at = key + 1; at != lines.end(); ++at) {
      if (isValue(*at))
        last = at;
      else if (!at->trim().empty() && !at->starts_with("#"))
        break;
    }
    lines.erase(key, last + 1);
  }
  std::string rest = llvm::join(lines, "\n");
  if (!rest.empty() && rest.back() != '\n')
    rest += '\n';
  return rest;
}

llvm::Expected<std::string> fcdp::mergeTables(llvm::MemoryBufferRef description,
                                              ImportedTables imported,
                                              llvm::StringRef source) {
  llvm::Expected<Cluster> cluster = parseCluster(description);
  if (!cluster)
    return cluster.takeError();
  llvm::StringRef name = description.getBufferIdentifier();
  if (cluster->ranksPerNode != imported.tables.ranksPerNode)
    return llvm::createStringError(llvm::formatv(
        "expected logs with the {0} ranks a node of '{1}', got {2}",
        cluster->ranksPerNode, name, imported.tables.ranksPerNode));
  addMissing(imported.tables, cluster->collectives);
  std::string text =
      withoutTables(description.getBuffer()) + toYaml(imported, source);
  llvm::Expected<Cluster> merged = parseCluster({text, name});
  if (!merged)
    return llvm::createStringError("expected the keys of '" + name +
                                   "' at the beginnings of lines; with the "
                                   "tables: " +
                                   toString(merged.takeError()));
  return text;
}
