// SPDX-License-Identifier: Apache-2.0
//
// Reads the YAML of measured collectives; docs/cluster.md has the schema.

#include "CollectiveTablesYaml.h"

#include "YamlNumbers.h"

using namespace fcdp;
using namespace llvm::yaml;

/// NCCL counts ranks with 31 bits.
static constexpr double kMostNodes = 0x1p31;

static llvm::StringRef expectNodes(RankSet set) {
  switch (set) {
  case RankSet::world:
    return "a positive whole number below 2^31";
  case RankSet::node:
    return "a whole number from 2 to 2^31";
  case RankSet::local:
    return "1";
  }
  llvm_unreachable("unknown set of ranks");
}

static bool canHaveNodes(RankSet set, double nodes) {
  if (nodes != std::floor(nodes) || nodes >= kMostNodes)
    return false;
  return set == RankSet::world || (nodes == 1) == (set == RankSet::local);
}

static std::string spell(double number) {
  std::string text;
  llvm::raw_string_ostream(text) << llvm::format("%.17g", number);
  return text;
}

static void mapTable(IO &io, RankSet set, CollectiveKind kind,
                     BusTable &table) {
  std::optional<NumberRows> rows;
  io.mapOptional(stringify(kind), rows);
  if (!rows)
    return;
  table = {};
  std::string name =
      std::string(stringify(set)) + "." + std::string(stringify(kind));
  for (const NumberRow &row : *rows) {
    if (row.size() != 3)
      return io.setError("expected rows of '" + name +
                         "' to be [bytes, nodes, bytes per second], got " +
                         llvm::Twine(row.size()) + " numbers");
    auto [bytes, nodes, rate] =
        std::tuple(row[0].value, row[1].value, row[2].value);
    if (!canHaveNodes(set, nodes))
      return io.setError("expected the nodes of '" + name + "' to be " +
                         expectNodes(set) + ", got " + spell(nodes));
    if (!table.set(static_cast<int64_t>(nodes), bytes, rate))
      return io.setError("expected one row of '" + name + "' for " +
                         spell(bytes) + " bytes and " + spell(nodes) +
                         " nodes");
  }
}

namespace {
/// The tables of one set of ranks while they are read.
struct NamedKinds {
  RankSet set;
  CollectiveTables::Kinds *kinds;
};
} // namespace

namespace llvm::yaml {
template <>
struct MappingTraits<NamedKinds> {
  static void mapping(IO &io, NamedKinds &named) {
    for (CollectiveKind kind : kCollectiveKinds)
      mapTable(io, named.set, kind, named.kinds->get(kind));
  }
};

void MappingTraits<CollectiveTables>::mapping(IO &io,
                                              CollectiveTables &tables) {
  for (RankSet set : kRankSets) {
    NamedKinds named{set, &tables.get(set)};
    io.mapOptional(stringify(set), named);
  }
}
} // namespace llvm::yaml
