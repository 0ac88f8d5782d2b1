// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Cluster/Cluster.h"

#include "llvm/Support/MemoryBuffer.h"

#include "gtest/gtest.h"

#include <string>

using namespace fcdp;

namespace {
/// Returns the error for the text of a cluster, or an empty string.
std::string complain(const std::string &text) {
  auto cluster = parseCluster({text, "two.yaml"});
  return cluster ? "" : llvm::toString(cluster.takeError());
}

constexpr char kGood[] = R"(name: two
nodes: 2
ranks_per_node: 4
device:
  memory: 48e9
  memory_bandwidth: 696e9
  flops: {f64: 0.5e12, f32: 37e12, bf16: 150e12, f16: 150e12}
  compute_efficiency: 0.6
  memory_efficiency: 0.8
  launch_latency: 5e-6
host:
  memory: 512000000001
inter: {bandwidth: 12.5e9, latency: 10e-6, sharing: node}
intra: {bandwidth: 20e9, latency: 0, sharing: rank}
h2d: {bandwidth: 13e9, latency: 1e-5, sharing: switch, ranks_per_switch: 2}
d2h: {bandwidth: 13e9, latency: 1e-5, sharing: switch, ranks_per_switch: 2}
)";

/// Returns the valid text with its first `from` replaced.
std::string change(const std::string &from, const std::string &to) {
  std::string text = kGood;
  size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}
} // namespace

TEST(Cluster, Parses) {
  auto cluster = parseCluster({kGood, "two.yaml"});
  ASSERT_TRUE(static_cast<bool>(cluster))
      << llvm::toString(cluster.takeError());
  EXPECT_EQ(cluster->name, "two");
  EXPECT_EQ(cluster->getWorldSize(), 8);
  EXPECT_EQ(cluster->device.memory, 48'000'000'000);
  EXPECT_EQ(cluster->device.flops.bf16, 150e12);
  EXPECT_EQ(cluster->device.computeEfficiency, 0.6);
  EXPECT_EQ(cluster->device.memoryEfficiency, 0.8);
  EXPECT_EQ(cluster->device.launchLatency, 5e-6);
  EXPECT_EQ(cluster->host.memory, 512'000'000'001);
  EXPECT_EQ(cluster->links[LinkId::Inter].bandwidth, 12.5e9);
  EXPECT_EQ(cluster->getSharers(cluster->links[LinkId::Inter]), 4);
  EXPECT_EQ(cluster->getSharers(cluster->links[LinkId::Intra]), 1);
  EXPECT_EQ(cluster->getSharers(cluster->links[LinkId::H2D]), 2);
}

TEST(Cluster, HostMemoryMayHaveABandwidth) {
  auto parse = [](const std::string &text) {
    return llvm::cantFail(parseCluster({text, "two.yaml"}));
  };
  EXPECT_FALSE(parse(kGood).host.memoryBandwidth);
  EXPECT_EQ(parse(kGood).host.numaNodes, 1);
  EXPECT_EQ(parse(kGood).getHostMemoryTime(1e9), 0);
  auto give = [](const std::string &numaNodes) {
    return change("inter:", "  memory_bandwidth: 400e9\n  numa_nodes: " +
                                numaNodes + "\ninter:");
  };
  Cluster cluster = parse(give("2"));
  EXPECT_EQ(cluster.host.memoryBandwidth, 400e9);
  EXPECT_EQ(cluster.host.numaNodes, 2);
  EXPECT_DOUBLE_EQ(cluster.getHostMemoryTime(1e9), 2 * 1e9 / 200e9);
  EXPECT_EQ(cluster.host.fileBandwidth, 2e9);
  EXPECT_EQ(parse(change("inter:", "  file_bandwidth: 7e9\ninter:"))
                .host.fileBandwidth,
            7e9);
  EXPECT_EQ(complain(give("0")), "two.yaml:14: error: expected a positive "
                                 "whole number below 2^53, got '0'");
}

TEST(Cluster, TwoSocketsMayHaveALink) {
  auto give = [](const std::string &numaNodes) {
    return change("inter:", "  numa_nodes: " + numaNodes +
                                "\n  socket_bandwidth: 20e9\ninter:");
  };
  Cluster cluster = llvm::cantFail(parseCluster({give("2"), "two.yaml"}));
  EXPECT_EQ(cluster.host.socketBandwidth, 20e9);
  EXPECT_EQ(cluster.localReductions, LocalReductions::exchange);
  EXPECT_NE(complain(give("4")).find("expected 'host.numa_nodes' to be 2 for "
                                     "'host.socket_bandwidth', got 4"),
            std::string::npos);
  cluster = llvm::cantFail(
      parseCluster({give("2") + "local_reductions: ring\n", "two.yaml"}));
  EXPECT_EQ(cluster.localReductions, LocalReductions::ring);
}

namespace {
/// Returns the good description with `lines` in its device.
std::string withDevice(const std::string &lines) {
  return change("  launch_latency", lines + "\n  launch_latency");
}
Device parseDevice(const std::string &text) {
  return llvm::cantFail(parseCluster({text, "two.yaml"})).device;
}
} // namespace

TEST(Cluster, ComputeCapabilityIsOptional) {
  EXPECT_EQ(parseDevice(kGood).computeCapability, 8);
  EXPECT_EQ(
      parseDevice(withDevice("  compute_capability: 7.5")).computeCapability,
      7.5);
  EXPECT_NE(complain(withDevice("  compute_capability: 0"))
                .find("expected a positive number, got '0'"),
            std::string::npos);
}

TEST(Cluster, CurvesAreOptional) {
  Device plain = parseDevice(kGood);
  EXPECT_TRUE(plain.memoryCurve.empty());
  EXPECT_TRUE(plain.attention.forward.empty());
  EXPECT_EQ(plain.processors, 0);
  EXPECT_TRUE(plain.products.empty());
  Device device = parseDevice(
      withDevice("  memory_curve: [[1e6, 0.25], [1e8, 0.5]]\n"
                 "  processors: 108\n"
                 "  products:\n"
                 "    - {type: bf16, m: 128, n: 256, k: 512, flops: 1e12}\n"
                 "  attention: {forward: [[512, 0.2]], masked: 0.5}"));
  ASSERT_EQ(device.memoryCurve.points.size(), 2u);
  EXPECT_EQ(device.memoryCurve.points[1].size, 1e8);
  EXPECT_EQ(device.memoryCurve.points[1].rate, 0.5);
  EXPECT_EQ(device.processors, 108);
  ASSERT_EQ(device.products.size(), 1u);
  EXPECT_EQ(device.products[0].shape.getFlops(), 2.0 * 128 * 256 * 512);
  EXPECT_EQ(device.attention.forward.read(1), 0.2);
  EXPECT_TRUE(device.attention.backward.empty());
  EXPECT_EQ(device.attention.masked, 0.5);
}

TEST(Cluster, RefusesBadCurves) {
  for (const char *curve : {"[[1, 1.5]]", "[[1]]", "[[1, 0.5, 2]]"})
    EXPECT_EQ(complain(withDevice(std::string("  memory_curve: ") + curve)),
              "two.yaml:5: error: expected 'memory_curve' to be a list of "
              "[size, share], each share above 0 and at most 1");
  EXPECT_EQ(complain(withDevice("  memory_curve: [[2, 0.5], [2, 0.6]]")),
            "two.yaml:5: error: expected the sizes of 'memory_curve' to "
            "ascend");
  EXPECT_EQ(complain(withDevice("  memory_curve: [[0, 0.5]]")),
            "two.yaml:10: error: expected a positive number, got '0'");
  EXPECT_EQ(complain(withDevice("  attention: {masked: 2}")),
            "two.yaml:10: error: expected a number above 0 and at most 1, got "
            "'2'");
}

TEST(Cluster, ReservesDeviceMemory) {
  auto plain = parseCluster({kGood, "two.yaml"});
  ASSERT_TRUE(static_cast<bool>(plain));
  EXPECT_EQ(plain->getDeviceCapacity().usable, 48'000'000'000);
  auto cluster = parseCluster(
      {change("  memory: 48e9\n",
              "  memory: 48e9\n  reserved: {context: 1e9, communicators: 2e9, "
              "workspace: 3e9, allocator: 0.05}\n"),
       "two.yaml"});
  ASSERT_TRUE(static_cast<bool>(cluster))
      << llvm::toString(cluster.takeError());
  DeviceCapacity capacity = cluster->getDeviceCapacity();
  // A plan of 40 GB has another 5 % of it unused.
  EXPECT_EQ(capacity.usable, 40'000'000'000);
  EXPECT_EQ(capacity.reserved,
            (std::array<int64_t, kNumReserveUses>{
                1'000'000'000, 2'000'000'000, 3'000'000'000, 2'000'000'000}));
  EXPECT_EQ(capacity.getTotal(), 48'000'000'000);
  // One rank communicates with nobody.
  cluster->nodes = cluster->ranksPerNode = 1;
  EXPECT_EQ(cluster->getDeviceCapacity().usable, 41'904'761'904);
  // A caller may leave a device smaller than what is reserved.
  cluster->device.memory = 1'500'000'000;
  capacity = cluster->getDeviceCapacity();
  EXPECT_EQ(capacity.usable, 0);
  EXPECT_EQ(capacity.getTotal(), 1'500'000'000);
}

TEST(Cluster, RefusesBadReserves) {
  EXPECT_EQ(complain(change("memory: 48e9",
                            "memory: 48e9\n  reserved: {context: 0.5}")),
            "two.yaml:6: error: expected 0 or a positive whole number below "
            "2^53, got '0.5'");
  EXPECT_EQ(complain(change("memory: 48e9",
                            "memory: 48e9\n  reserved: {allocator: -1}")),
            "two.yaml:6: error: expected 0 or a positive number, got '-1'");
  EXPECT_EQ(complain(change("memory: 48e9",
                            "memory: 48e9\n  reserved: {kernels: 1}")),
            "two.yaml:6: error: unknown key 'kernels'");
  EXPECT_EQ(complain(change("memory: 48e9",
                            "memory: 48e9\n  reserved: {context: 48e9}")),
            "two.yaml:1: error: expected 'device.reserved' to leave some of "
            "'device.memory' to plans");
}

TEST(Cluster, IssueTimes) {
  Host plain = llvm::cantFail(parseCluster({kGood, "two.yaml"})).host;
  EXPECT_EQ(plain.issue.op, 0);
  std::string text =
      change("host:\n", "host:\n  issue: {operator: 2e-6, view: 1e-6, "
                        "transfer: 5e-6}\n");
  IssueTimes issue =
      llvm::cantFail(parseCluster({text, "two.yaml"})).host.issue;
  EXPECT_EQ(issue.op, 2e-6);
  EXPECT_EQ(issue.view, 1e-6);
  EXPECT_EQ(issue.transfer, 5e-6);
  EXPECT_EQ(issue.getCopy(), 5e-6);
  text = change("host:\n", "host:\n  issue: {transfer: 5e-6, copy: 2e-6}\n");
  issue = llvm::cantFail(parseCluster({text, "two.yaml"})).host.issue;
  EXPECT_EQ(issue.transfer, 5e-6);
  EXPECT_EQ(issue.getCopy(), 2e-6);
}

TEST(Cluster, FlatCollectivesNeedNoWord) {
  auto parse = [](const std::string &text) {
    return llvm::cantFail(parseCluster({text, "two.yaml"})).flatCollectives;
  };
  EXPECT_EQ(parse(kGood), FlatCollectives::direct);
  EXPECT_EQ(parse(std::string(kGood) + "flat_collectives: direct\n"),
            FlatCollectives::direct);
  EXPECT_EQ(parse(std::string(kGood) + "flat_collectives: ring\n"),
            FlatCollectives::ring);
  EXPECT_NE(complain(std::string(kGood) + "flat_collectives: tree\n")
                .find("error: unknown enumerated scalar"),
            std::string::npos);
}

TEST(Cluster, ExpertsAreBalancedUnlessTheirSkewIsGiven) {
  auto parse = [](const std::string &text) {
    return llvm::cantFail(parseCluster({text, "two.yaml"})).expertSkew;
  };
  EXPECT_EQ(parse(kGood), 0);
  EXPECT_EQ(parse(std::string(kGood) + "expert_skew: 1.2\n"), 1.2);
  EXPECT_NE(complain(std::string(kGood) + "expert_skew: 3\n")
                .find("expected a number from 0 to 2, got '3'"),
            std::string::npos);
}

TEST(Cluster, LocalSumsAreThePlansUnlessTheyAreGiven) {
  auto parse = [](const std::string &text) {
    return llvm::cantFail(parseCluster({text, "two.yaml"})).localSums;
  };
  EXPECT_EQ(parse(kGood).by, SummedBy::plan);
  LocalSums sums = parse(std::string(kGood) + "local_sums: {by: add}\n");
  EXPECT_EQ(sums.by, SummedBy::add);
  EXPECT_EQ(sums.bytes, 4);
  sums = parse(std::string(kGood) + "local_sums: {by: product, bytes: 2}\n");
  EXPECT_EQ(sums.by, SummedBy::product);
  EXPECT_EQ(sums.bytes, 2);
  EXPECT_NE(complain(std::string(kGood) + "local_sums: {by: nobody}\n")
                .find("error: unknown enumerated scalar"),
            std::string::npos);
}

TEST(Cluster, TheCodecHasDefaults) {
  auto parse = [](const std::string &codec) {
    std::string text = kGood + codec;
    return llvm::cantFail(parseCluster({text, "two.yaml"})).messages;
  };
  MessageRates all = parse("codec:\n  rate: 2e9\n  delta_bits: 1.5\n"
                           "  coded_bits: 12\n");
  EXPECT_EQ(all.rate, 2e9);
  EXPECT_EQ(all.deltaBits, 1.5);
  EXPECT_EQ(all.codedBits, 12);
  MessageRates some = parse("codec:\n  rate: 3e9\n");
  EXPECT_EQ(some.rate, 3e9);
  EXPECT_EQ(some.deltaBits, MessageRates().deltaBits);
  EXPECT_EQ(parse("").rate, MessageRates().rate);
  EXPECT_NE(complain(std::string(kGood) + "codec:\n  delta_bits: 17\n")
                .find("expected 'codec.delta_bits' to be at most 16, got 17"),
            std::string::npos);
  EXPECT_NE(complain(std::string(kGood) + "codec:\n  rate: 0\n")
                .find("expected a positive number, got '0'"),
            std::string::npos);
}

TEST(Cluster, RefusesUnknownKeys) {
  EXPECT_EQ(complain(change("  memory: 512", "  numa: 2\n  memory: 512")),
            "two.yaml:12: error: unknown key 'numa'");
  EXPECT_EQ(complain(change("sharing: rank", "sharing: rank, "
                                             "ranks_per_switch: 2")),
            "two.yaml:14: error: unknown key 'ranks_per_switch'");
}

TEST(Cluster, BuildsOnAPreset) {
  Cluster base = llvm::cantFail(loadCluster("a40-rdma"));
  Cluster own = llvm::cantFail(parseCluster({R"(base: a40-rdma
name: ours
nodes: 2
device:
  memory_curve: [[1e6, 0.5]]
  products:
    - {type: bf16, m: 8, n: 16, k: 32, flops: 1e12}
  flops: {f64: 1e12}
host: {numa_nodes: 4}
h2d: {sharing: rank}
)",
                                             "ours.yaml"}));
  // Its own keys count, also within a mapping. All other keys are the base's.
  EXPECT_EQ(own.name, "ours");
  EXPECT_EQ(own.nodes, 2);
  EXPECT_EQ(own.ranksPerNode, base.ranksPerNode);
  EXPECT_EQ(own.device.flops.f64, 1e12);
  EXPECT_EQ(own.device.flops.bf16, base.device.flops.bf16);
  EXPECT_EQ(own.device.processors, base.device.processors);
  EXPECT_EQ(own.device.memory, base.device.memory);
  EXPECT_EQ(own.host.memory, base.host.memory);
  EXPECT_EQ(own.host.numaNodes, 4);
  EXPECT_EQ(own.links[LinkId::Inter].bandwidth,
            base.links[LinkId::Inter].bandwidth);
  EXPECT_EQ(own.links[LinkId::H2D].bandwidth,
            base.links[LinkId::H2D].bandwidth);
  EXPECT_EQ(own.getSharers(own.links[LinkId::H2D]), 1);
  EXPECT_EQ(own.getSharers(own.links[LinkId::D2H]),
            base.getSharers(base.links[LinkId::D2H]));
  // Lists are its own as a whole.
  EXPECT_EQ(own.device.memoryCurve.points.size(), 1u);
  EXPECT_EQ(own.device.products.size(), 1u);
  EXPECT_EQ(own.device.attention.forward.points.size(),
            base.device.attention.forward.points.size());
}

TEST(Cluster, BuildsOnAPresetThatHasABase) {
  Cluster own = llvm::cantFail(
      parseCluster({"base: h100-tcpx\nname: ours\n"
                    "collectives:\n  world:\n    all_gather: [[1e6, 4, 2e9]]\n",
                    "ours.yaml"}));
  Cluster first = llvm::cantFail(loadCluster("h100"));
  EXPECT_EQ(own.device.memory, first.device.memory);
  EXPECT_EQ(own.links[LinkId::Inter].ranksPerSwitch, 2);
  auto read = [&](int64_t nodes) {
    return own.collectives.read(RankSet::world, CollectiveKind::allGather, 1e6,
                                nodes);
  };
  // The table replaces that of the base, which has 2 nodes.
  EXPECT_EQ(read(4)->rate, 2e9);
  EXPECT_EQ(read(2)->rate, 2e9);
}

TEST(Cluster, TablesOfABaseAreOfNodesOfItsSize) {
  auto parse = [](const std::string &more) {
    return llvm::cantFail(
        parseCluster({"base: h100-tcpx\nname: ours\n" + more, "ours.yaml"}));
  };
  EXPECT_FALSE(parse("nodes: 4\n").collectives.empty());
  EXPECT_TRUE(parse("ranks_per_node: 4\n").collectives.empty());
}

TEST(Cluster, RefusesABaseThatIsNoPreset) {
  std::string message = complain("name: two\nbase: two.yaml\n");
  EXPECT_EQ(message.find("two.yaml:2: error: expected 'base' to be one of "
                         "a100-40gb, "),
            0u)
      << message;
  EXPECT_NE(message.find(", got 'two.yaml'"), std::string::npos) << message;
  // A list's elements have no base.
  EXPECT_EQ(complain("base: h100\nname: two\ndevice:\n  products:\n"
                     "    - {type: f32, m: 1, n: 1, flops: 1}\n"),
            "two.yaml:5: error: missing required key 'k'");
  EXPECT_EQ(complain("base: h100\n"),
            "two.yaml:1: error: missing required key 'name'");
  EXPECT_EQ(complain("base: h100\nname: two\nnodes: 0\n"),
            "two.yaml:3: error: expected a positive whole number below 2^53, "
            "got '0'");
}

TEST(Cluster, NamesMissingKeys) {
  EXPECT_EQ(complain(change("  launch_latency: 5e-6\n", "")),
            "two.yaml:5: error: missing required key 'launch_latency'");
  EXPECT_EQ(complain(change("nodes: 2\n", "")),
            "two.yaml:1: error: missing required key 'nodes'");
  EXPECT_EQ(complain(change(", ranks_per_switch: 2", "")),
            "two.yaml:15: error: missing required key 'ranks_per_switch'");
}

TEST(Cluster, RefusesBadNumbers) {
  EXPECT_EQ(complain(change("696e9", "-1")),
            "two.yaml:6: error: expected a positive number, got '-1'");
  EXPECT_EQ(complain(change("696e9", "0")),
            "two.yaml:6: error: expected a positive number, got '0'");
  EXPECT_EQ(complain(change("696e9", "1e400")),
            "two.yaml:6: error: expected a positive number, got '1e400'");
  EXPECT_EQ(complain(change("696e9", ".inf")),
            "two.yaml:6: error: expected a positive number, got '.inf'");
  EXPECT_EQ(complain(change("696e9", "nan")),
            "two.yaml:6: error: expected a positive number, got 'nan'");
  EXPECT_EQ(complain(change("696e9", "696 GB")),
            "two.yaml:6: error: expected a positive number, got '696 GB'");
  EXPECT_EQ(complain(change("5e-6", "-5e-6")),
            "two.yaml:10: error: expected 0 or a positive number, got "
            "'-5e-6'");
  EXPECT_EQ(complain(change("efficiency: 0.6", "efficiency: 60")),
            "two.yaml:8: error: expected a number above 0 and at most 1, got "
            "'60'");
  EXPECT_EQ(complain(change("nodes: 2", "nodes: 2.5")),
            "two.yaml:2: error: expected a positive whole number below 2^53, "
            "got '2.5'");
  EXPECT_EQ(complain(change("48e9", "1e30")),
            "two.yaml:5: error: expected a positive whole number below 2^53, "
            "got '1e30'");
  EXPECT_EQ(complain(change("48e9", "inf")),
            "two.yaml:5: error: expected a positive whole number below 2^53, "
            "got 'inf'");
}

TEST(Cluster, SharesOfCollectivesAreOfLinksBetweenRanks) {
  auto cluster = parseCluster(
      {change("sharing: node}", "sharing: node, collective_share: 0.4}"),
       "two.yaml"});
  ASSERT_TRUE(static_cast<bool>(cluster))
      << llvm::toString(cluster.takeError());
  EXPECT_EQ(cluster->links[LinkId::Inter].collectiveShare, 0.4);
  EXPECT_EQ(cluster->links[LinkId::Intra].collectiveShare, std::nullopt);
  EXPECT_EQ(
      complain(change("sharing: node}", "sharing: node, collective_share: 1}")),
      "two.yaml:13: error: expected a number of at least 0 and below 1, "
      "got '1'");
  EXPECT_EQ(complain(change("switch: 2}", "switch: 2, collective_share: 0.4}")),
            "two.yaml:1: error: expected 'collective_share' of a link between "
            "ranks, got it for copies between host and device");
}

TEST(Cluster, RefusesContradictions) {
  EXPECT_EQ(complain(change("ranks_per_switch: 2", "ranks_per_switch: 3")),
            "two.yaml:1: error: expected 'h2d.ranks_per_switch' to divide the "
            "4 ranks of a node, got 3");
  EXPECT_EQ(complain(change("nodes: 2", "nodes: 2e9")),
            "two.yaml:1: error: expected nodes and ranks per node to be "
            "positive, and below 2^31 ranks in all, got 2000000000 and 4");
}

TEST(Cluster, RefusesWhatIsNoDescription) {
  EXPECT_EQ(complain(""), "two.yaml:1: error: expected the description of a "
                          "cluster, got nothing");
  EXPECT_EQ(complain("# nothing\n"),
            "two.yaml:1: error: expected the description of a cluster, got "
            "nothing");
  // The parser returns no node, or no location of its error.
  EXPECT_EQ(complain("**"), "two.yaml:1: error: unknown node kind");
  EXPECT_EQ(complain("%YAML 1.2\n%l !"), "two.yaml:1: error: Unexpected token");
  EXPECT_EQ(complain("[1, 2]\n"), "two.yaml:1: error: not a mapping");
  EXPECT_EQ(complain("nodes: {\n"),
            "two.yaml:1: error: Unexpected token. Expected Key, Flow Entry, or "
            "Flow Mapping End.");
  EXPECT_EQ(complain(std::string(kGood) + "---\n" + kGood),
            "two.yaml:1: error: expected one description, got several "
            "documents");
  EXPECT_EQ(complain(std::string(16, '[')),
            "two.yaml:1: error: Could not find closing ]!");
  EXPECT_EQ(complain(std::string(1 << 20, '[')),
            "two.yaml:1: error: expected a description of at most 65536 bytes, "
            "got 1048576");
}

// LLVM's parser recurses, and the texts are as long as they may be.
TEST(Cluster, RefusesDeepNesting) {
  auto repeat = [](llvm::StringRef text) {
    std::string repeated;
    while (repeated.size() + text.size() <= size_t(64) << 10)
      repeated += text;
    return repeated;
  };
  EXPECT_EQ(complain(repeat("[")),
            "two.yaml:1: error: Could not find closing ]!");
  for (const char *level : {"- ", "[\n#]\n", "[\"]\",", "{a: ", "? ", "- ? "})
    EXPECT_NE(complain(repeat(level)), "") << level;
}

TEST(Cluster, ParsesTheDocumentsExample) {
  auto file = llvm::MemoryBuffer::getFile(FCDP_SOURCE_DIR "/docs/cluster.md");
  ASSERT_TRUE(static_cast<bool>(file)) << file.getError().message();
  llvm::StringRef text = (*file)->getBuffer().split("```yaml\n").second;
  auto cluster = parseCluster({text.split("```").first, "cluster.md"});
  ASSERT_TRUE(static_cast<bool>(cluster))
      << llvm::toString(cluster.takeError());
  EXPECT_EQ(cluster->name, "four-nodes");
}

TEST(ClusterPresets, Load) {
  for (const ClusterPreset &preset : getClusterPresets()) {
    auto cluster = loadCluster(preset.name);
    ASSERT_TRUE(static_cast<bool>(cluster))
        << llvm::toString(cluster.takeError());
    EXPECT_EQ(cluster->name, preset.name);
  }
}

TEST(ClusterPresets, AreListedWhereAFileIsMissing) {
  auto cluster = loadCluster("a50");
  ASSERT_FALSE(static_cast<bool>(cluster));
  EXPECT_EQ(llvm::toString(cluster.takeError()),
            "expected a file or one of a100-40gb, a100-80gb, a100-pcie, "
            "a40-10gbe, a40-1gbe, a40-ipoib, a40-rdma, b200, cpu, gh200, h100, "
            "h100-pcie, h100-tcp, h100-tcpx, h200, l40s, rtx3090, rtx4090, "
            "rtx5090, spark, t4, "
            "v100-16gb, v100-32gb, workstations, "
            "got 'a50': No such file or directory");
}

TEST(Cluster, ASwitchMayHaveMoreRanksThanAJobUsesOfANode) {
  Cluster cluster = llvm::cantFail(parseCluster({kGood, "two.yaml"}));
  EXPECT_EQ(cluster.getSharers(cluster.links[LinkId::H2D]), 2);
  cluster.ranksPerNode = 1;
  EXPECT_EQ(llvm::toString(cluster.check()), "");
  EXPECT_EQ(cluster.getSharers(cluster.links[LinkId::H2D]), 1);
}

TEST(Cluster, ChecksWhatACallerChanges) {
  Cluster good = llvm::cantFail(parseCluster({kGood, "two.yaml"}));
  auto complainOf = [&](auto &&change) {
    Cluster cluster = good;
    change(cluster);
    return llvm::toString(cluster.check());
  };
  EXPECT_EQ(complainOf([](Cluster &c) { c.nodes = 0; }),
            "expected nodes and ranks per node to be positive, and below 2^31 "
            "ranks in all, got 0 and 4");
  EXPECT_EQ(
      complainOf([](Cluster &c) { c.links[LinkId::Inter].bandwidth = 0; }),
      "expected 'inter.bandwidth' to be positive and finite, got 0.00");
  EXPECT_EQ(complainOf([](Cluster &c) { c.links[LinkId::D2H].latency = -1; }),
            "expected 'd2h.latency' to be 0 or more, got -1.00");
  EXPECT_EQ(complainOf([](Cluster &c) { c.device.flops.f16 = -1; }),
            "expected 'device.flops.f16' to be positive and finite, got -1.00");
  EXPECT_EQ(complainOf([](Cluster &c) { c.device.memoryEfficiency = 2; }),
            "expected 'device.memory_efficiency' to be at most 1, got 2.00");
  EXPECT_EQ(complainOf([](Cluster &c) { c.device.launchLatency = -1; }),
            "expected 'device.launch_latency' to be 0 or more, got -1.00");
  EXPECT_EQ(complainOf([](Cluster &c) { c.ranksPerNode = 3; }),
            "expected 'h2d.ranks_per_switch' to divide the 3 ranks of a node, "
            "got 2");
}
