// SPDX-License-Identifier: Apache-2.0
//
// Reads the YAML of a cluster's description; docs/cluster.md has the schema.

#include "CollectiveTablesYaml.h"
#include "DeviceYaml.h"
#include "YamlNumbers.h"
#include "fcdp/Cluster/Cluster.h"

#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/thread.h"

using namespace fcdp;
using namespace llvm::yaml;

/// The greatest size of a description in bytes, far above a real one.
static constexpr size_t kMaxBytes = 64 << 10;
/// The parser's stack. LLVM's parser recurses for each level of nesting, and
/// there may be as many levels as bytes.
static constexpr unsigned kStackBytes = kMaxBytes << 12;

namespace {
/// The preset on which a description builds. Files are not allowed: presets are
/// in this program, so a chain of them ends.
struct Base {
  llvm::StringRef preset;
};
} // namespace

namespace llvm::yaml {
template <>
struct ScalarTraits<Base> {
  static void output(const Base &base, void *, llvm::raw_ostream &stream) {
    stream << base.preset;
  }
  static llvm::StringRef input(llvm::StringRef scalar, void *context,
                               Base &base) {
    for (const ClusterPreset &preset : getClusterPresets())
      if (preset.name == scalar) {
        base.preset = preset.name;
        return {};
      }
    auto *reader = static_cast<YamlReader *>(context);
    reader->message = "expected 'base' to be one of " + listClusterPresets() +
                      ", got '" + scalar.str() + "'";
    return reader->message;
  }
  static QuotingType mustQuote(llvm::StringRef) { return QuotingType::None; }
};
template <>
struct ScalarEnumerationTraits<Sharing> {
  static void enumeration(IO &io, Sharing &value) {
    io.enumCase(value, "rank", Sharing::rank);
    io.enumCase(value, "switch", Sharing::switched);
    io.enumCase(value, "node", Sharing::node);
  }
};
template <>
struct ScalarEnumerationTraits<FlatCollectives> {
  static void enumeration(IO &io, FlatCollectives &value) {
    io.enumCase(value, "direct", FlatCollectives::direct);
    io.enumCase(value, "ring", FlatCollectives::ring);
  }
};
template <>
struct ScalarEnumerationTraits<LocalReductions> {
  static void enumeration(IO &io, LocalReductions &value) {
    io.enumCase(value, "exchange", LocalReductions::exchange);
    io.enumCase(value, "ring", LocalReductions::ring);
  }
};
template <>
struct ScalarEnumerationTraits<Fusion> {
  static void enumeration(IO &io, Fusion &value) {
    io.enumCase(value, "none", Fusion::none);
    io.enumCase(value, "pointwise", Fusion::pointwise);
  }
};
template <>
struct ScalarEnumerationTraits<SummedBy> {
  static void enumeration(IO &io, SummedBy &value) {
    io.enumCase(value, "plan", SummedBy::plan);
    io.enumCase(value, "add", SummedBy::add);
    io.enumCase(value, "product", SummedBy::product);
  }
};
template <>
struct MappingTraits<LocalSums> {
  static void mapping(IO &io, LocalSums &sums) {
    io.mapRequired("by", sums.by);
    mapWithDefault<Count>(io, "bytes", sums.bytes);
  }
};
template <>
struct MappingTraits<IssueTimes> {
  static void mapping(IO &io, IssueTimes &issue) {
    mapWithDefault<NotNegative>(io, "operator", issue.op);
    mapWithDefault<NotNegative>(io, "view", issue.view);
    mapWithDefault<NotNegative>(io, "transfer", issue.transfer);
    mapNumber<NotNegative>(io, "copy", issue.copy);
    mapWithDefault<NotNegative>(io, "step", issue.step);
  }
};
template <>
struct MappingTraits<Host> {
  static void mapping(IO &io, Host &host) {
    mapNumber<Count>(io, "memory", host.memory);
    mapNumber<Positive>(io, "memory_bandwidth", host.memoryBandwidth);
    mapWithDefault<Count>(io, "numa_nodes", host.numaNodes);
    mapNumber<Positive>(io, "socket_bandwidth", host.socketBandwidth);
    mapWithDefault<Positive>(io, "file_bandwidth", host.fileBandwidth);
    mapWithDefault<Positive>(io, "update_rate", host.updateRate);
    io.mapOptional("issue", host.issue);
  }
};
template <>
struct MappingTraits<Link> {
  static void mapping(IO &io, Link &link) {
    mapNumber<Positive>(io, "bandwidth", link.bandwidth);
    mapNumber<NotNegative>(io, "latency", link.latency);
    mapUnlessInherited(io, "sharing", link.sharing);
    // With any other sharing this key is refused as unknown.
    if (link.sharing == Sharing::switched)
      mapNumber<Count>(io, "ranks_per_switch", link.ranksPerSwitch);
    mapNumber<PartialShare>(io, "collective_share", link.collectiveShare);
  }
};
template <>
struct MappingTraits<MessageRates> {
  static void mapping(IO &io, MessageRates &rates) {
    for (const MessageRates::Figure &figure : MessageRates::getFigures())
      mapWithDefault<Positive>(io, figure.key, rates.*figure.value);
  }
};
template <>
struct MappingTraits<Spread> {
  static void mapping(IO &io, Spread &spread) {
    for (unsigned i = 0; i < kNumCostInputs; ++i)
      mapWithDefault<FromZeroToTwo>(
          io, stringifyCostInput(static_cast<CostInput>(i)).data(),
          spread.inputs[i]);
    mapWithDefault<FromZeroToTwo>(io, "model", spread.model);
    mapWithDefault<FromZeroToTwo>(io, "strategies", spread.strategies);
  }
};
template <>
struct MappingTraits<Cluster> {
  static void mapping(IO &io, Cluster &cluster) {
    std::optional<Base> base;
    io.mapOptional("base", base);
    // All presets are read by the tests.
    if (base && !base->preset.empty()) {
      cluster = llvm::cantFail(loadCluster(base->preset));
      static_cast<YamlReader *>(io.getContext())->hasBase = true;
    }
    io.mapRequired("name", cluster.name);
    mapNumber<Count>(io, "nodes", cluster.nodes);
    mapNumber<Count>(io, "ranks_per_node", cluster.ranksPerNode);
    mapUnlessInherited(io, "device", cluster.device);
    mapUnlessInherited(io, "host", cluster.host);
    for (LinkId link : kLinks)
      mapUnlessInherited(io, kLinkNames[link], cluster.links[link]);
    if (cluster.links[LinkId::H2D].collectiveShare ||
        cluster.links[LinkId::D2H].collectiveShare)
      io.setError("expected 'collective_share' of a link between ranks, got it "
                  "for copies between host and device");
    // A base's tables do not apply to nodes of another size.
    if (cluster.collectives.ranksPerNode != cluster.ranksPerNode)
      cluster.collectives = {};
    io.mapOptional("collectives", cluster.collectives);
    cluster.collectives.ranksPerNode = cluster.ranksPerNode;
    io.mapOptional("flat_collectives", cluster.flatCollectives);
    io.mapOptional("local_reductions", cluster.localReductions);
    io.mapOptional(MessageRates::kKey, cluster.messages);
    io.mapOptional("fusion", cluster.fusion);
    io.mapOptional("local_sums", cluster.localSums);
    mapWithDefault<FromZeroToTwo>(io, "expert_skew", cluster.expertSkew);
    io.mapOptional("spread", cluster.spread);
  }
  static std::string validate(IO &, Cluster &cluster) {
    if (llvm::Error error = cluster.check())
      return toString(std::move(error));
    if (cluster.getDeviceCapacity().usable == 0)
      return "expected 'device.reserved' to leave some of 'device.memory' to "
             "plans";
    return "";
  }
};
} // namespace llvm::yaml

static void keepFirst(const llvm::SMDiagnostic &diagnostic, void *context) {
  auto *reader = static_cast<YamlReader *>(context);
  if (!reader->complaint.empty())
    return;
  reader->complaint =
      llvm::formatv("{0}:{1}: error: {2}", reader->file, // some have no line
                    std::max(diagnostic.getLineNo(), 1),
                    diagnostic.getMessage())
          .str();
}

static llvm::Expected<Cluster> parse(llvm::MemoryBufferRef text) {
  auto fail = [&](const llvm::Twine &message) {
    return llvm::createStringError(text.getBufferIdentifier() +
                                   ":1: error: " + message);
  };
  if (text.getBufferSize() > kMaxBytes)
    return fail("expected a description of at most " + llvm::Twine(kMaxBytes) +
                " bytes, got " + llvm::Twine(text.getBufferSize()));
  YamlReader reader;
  reader.file = text.getBufferIdentifier();
  Input input(text, &reader, keepFirst, &reader);
  Cluster cluster;
  EmptyContext context;
  bool found = input.setCurrentDocument();
  // If the parser refuses the whole document, there is no node to map.
  if (found && input.getCurrentNode())
    yamlize(input, cluster, /*Required=*/true, context);
  if (!reader.complaint.empty())
    return llvm::createStringError(reader.complaint);
  if (input.error())
    return fail("cannot read the description");
  if (!found)
    return fail("expected the description of a cluster, got nothing");
  input.nextDocument();
  if (input.setCurrentDocument())
    return fail("expected one description, got several documents");
  return cluster;
}

llvm::Expected<Cluster> fcdp::parseCluster(llvm::MemoryBufferRef text) {
  std::optional<llvm::Expected<Cluster>> parsed;
  llvm::thread(std::optional<unsigned>(kStackBytes), [&] {
    parsed.emplace(parse(text));
  }).join();
  return std::move(*parsed);
}
