// SPDX-License-Identifier: Apache-2.0
#include "probe/ProbedCluster.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace fcdp::probe {

namespace {

/// How exactly a probe knows what it measures, as standard deviations of
/// logarithms: what other machines of a cluster, and other hours, change.
constexpr ProbedSpread kLeastSpread{.products = 0.03,
                                    .memory = 0.03,
                                    .launch = 0.1,
                                    .inter = 0.05,
                                    .interLatency = 0.1,
                                    .intra = 0.05,
                                    .intraLatency = 0.1,
                                    .copies = 0.05};
constexpr double kIssueSpread = 0.1;
/// Heads of other sizes reach other shares.
constexpr double kAttentionSpread = 0.05;
/// The greatest that a description may have.
constexpr double kMostSpread = 2;

std::string spell(double number) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.4g", number);
  return text;
}

std::string entry(const char *key, const std::string &value) {
  return "  " + std::string(key) + ": " + value + "\n";
}

/// Measurements that scatter more say so.
std::string describeSpread(const ProbedCluster &cluster) {
  std::string text = "spread:\n";
  auto addNumber = [&](const char *key, double scatter, double least) {
    text += entry(key, spell(std::min(std::max(scatter, least), kMostSpread)));
  };
  auto add = [&](const char *key, double ProbedSpread::*value) {
    addNumber(key, cluster.spread.*value, kLeastSpread.*value);
  };
  add("products", &ProbedSpread::products);
  add("memory", &ProbedSpread::memory);
  add("launch", &ProbedSpread::launch);
  add("inter", &ProbedSpread::inter);
  add("inter_latency", &ProbedSpread::interLatency);
  add("intra", &ProbedSpread::intra);
  add("intra_latency", &ProbedSpread::intraLatency);
  add("copies", &ProbedSpread::copies);
  for (const ProbedRate &rate : cluster.rates)
    addNumber(rate.section, rate.scatter, rate.leastSpread);
  if (cluster.gpu)
    text +=
        entry("issue", spell(kIssueSpread)) +
        (cluster.gpu->attention ? entry("attention", spell(kAttentionSpread))
                                : "");
  return text;
}

std::string describeSharing(uint32_t sharers, uint32_t locals) {
  if (sharers == 1)
    return entry("sharing", "rank");
  if (sharers == locals)
    return entry("sharing", "node");
  return entry("sharing", "switch") +
         entry("ranks_per_switch", std::to_string(sharers));
}

/// Returns the entry of a link. The bandwidth is for a sharing domain.
std::string describeLink(const char *name, const SharedLink &link,
                         uint32_t locals, const std::string &comment) {
  return std::string(name) + ":" + comment + "\n" +
         entry("bandwidth", spell(link.each.bandwidth * link.sharers)) +
         entry("latency", spell(link.each.latency)) +
         describeSharing(link.sharers, locals) +
         (link.processors > 0
              ? entry("collective_share", spell(link.processors))
              : "");
}

/// Returns a table of collectives. A row has the bytes of the whole, of which a
/// rank sends all except one part.
std::string describeTable(const char *name, const std::vector<TimedSize> &times,
                          uint32_t ranks, uint32_t nodes) {
  std::string text = "    " + std::string(name) + ":\n";
  for (const TimedSize &time : withoutBursts(times))
    text +=
        "      - [" +
        std::to_string(std::llround(time.bytes / (ranks - 1) * double(ranks))) +
        ", " + std::to_string(nodes) + ", " + spell(time.rate()) + "]\n";
  return text;
}

std::string describeCollectives(const char *name,
                                const ProbedCollectives &collectives,
                                uint32_t ranks, uint32_t nodes) {
  if (collectives.gathers.empty())
    return "";
  return "  " + std::string(name) + ":\n" +
         describeTable("all_gather", collectives.gathers, ranks, nodes) +
         describeTable("reduce_scatter", collectives.reductions, ranks, nodes);
}

std::string describeTables(const ProbedCluster &cluster) {
  std::string text =
      describeCollectives("world", cluster.overWorld, cluster.mesh.size(),
                          cluster.mesh.nodes) +
      describeCollectives("node", cluster.overNodes, cluster.mesh.nodes,
                          cluster.mesh.nodes) +
      describeCollectives("local", cluster.overLocals, cluster.mesh.locals, 1);
  if (text.empty())
    return "";
  return "collectives: # rows of [bytes, nodes, bytes per second of a rank]\n" +
         text;
}

std::string describeProducts(const std::vector<ProbedProduct> &products) {
  std::string text = "  products:\n";
  for (const ProbedProduct &product : products)
    text +=
        "    - {type: " + std::string(name(product.type)) +
        (product.batch > 1 ? ", batch: " + std::to_string(product.batch) : "") +
        ", m: " + std::to_string(product.m) +
        ", n: " + std::to_string(product.n) +
        ", k: " + std::to_string(product.k) +
        ", flops: " + spell(product.flops) + "}\n";
  return text;
}

/// Returns shares of the rate of the largest size. Caches make some sizes
/// faster, which a description cannot express.
std::string describeCurve(const std::vector<RateOfSize> &curve) {
  std::string text;
  for (const RateOfSize &point : curve)
    text += (text.empty() ? "[" : ", [") + spell(point.bytes) + ", " +
            spell(std::min(point.rate / curve.back().rate, 1.0)) + "]";
  return entry("memory_curve", "[" + text + "]");
}

/// Returns the rates of products. A type without products gets the rate of f32,
/// from which libraries convert.
std::string describeFlops(const ProbedCluster &cluster) {
  std::string text;
  for (const auto &[type, rate] :
       {std::pair(DType::F64, cluster.f64), std::pair(DType::F32, cluster.f32),
        std::pair(DType::BF16, cluster.bf16),
        std::pair(DType::F16, cluster.f16)}) {
    std::string why;
    if (cluster.gpu)
      for (const auto &[missing, reason] : cluster.gpu->missingTypes)
        why = missing == type ? reason : why;
    text += "  " +
            (why.empty()
                 ? entry(name(type), spell(rate))
                 : entry(name(type), spell(cluster.f32) +
                                         " # assumed as f32: not measured, as "
                                         "this GPU has no such products: " +
                                         why));
  }
  return text;
}

/// Returns shares of the rate of products in operands of the same type.
std::string describeShares(const char *key,
                           const std::vector<RateOfKeys> &rates, double whole) {
  std::string text;
  for (const RateOfKeys &point : rates)
    text += (text.empty() ? "[" : ", [") + spell(point.keys) + ", " +
            spell(std::min(point.rate / whole, 1.0)) + "]";
  return "  " + entry(key, "[" + text + "]");
}

std::string describeAttention(const ProbedCluster &cluster) {
  const ProbedGpuFacts &gpu = *cluster.gpu;
  if (!gpu.attention)
    return "  # attention is not measured, as this GPU has none: " +
           gpu.whyNoAttention + "\n";
  const AttentionFigures &found = *gpu.attention;
  double whole = gpu.rates.best(found.type);
  return "  attention: # causal, heads of 128, in " +
         std::string(name(found.type)) + "\n" +
         describeShares("forward", found.forward, whole) +
         describeShares("backward", found.backward, whole) + "  " +
         entry("masked", spell(found.masked)) + "  " +
         entry("narrow", spell(found.narrow));
}

std::string describeSustained(const SustainedFigures &found) {
  return entry("sustained", spell(found.share)) +
         (found.variation
              ? entry("variation", spell(*found.variation))
              : "  # variation is not measured: there are too few ranks\n");
}

std::string describeHostBandwidth(const std::optional<double> &bandwidth) {
  if (bandwidth)
    return entry("memory_bandwidth",
                 spell(*bandwidth) + " # of copies in both directions at once");
  return "  # memory_bandwidth does not limit copies in both directions at "
         "once\n";
}

std::string describeGpu(const ProbedCluster &cluster) {
  const ProbedGpuFacts &gpu = *cluster.gpu;
  return "  reserved:\n  " + entry("context", std::to_string(gpu.context)) +
         "  " + entry("communicators", std::to_string(gpu.communicators)) +
         "  " + entry("workspace", std::to_string(gpu.workspace)) +
         describeCurve(gpu.rates.curve) +
         entry("processors", std::to_string(gpu.processors)) +
         describeProducts(gpu.rates.products) + describeAttention(cluster) +
         entry("collective_share", spell(gpu.collectiveShare)) +
         describeSustained(gpu.sustained) +
         entry("compute_capability",
               std::to_string(gpu.major) + "." + std::to_string(gpu.minor));
}

std::string describeIssue(const IssueRates &issue) {
  return "  issue: # a step's own time is not measured\n  " +
         entry("operator", spell(issue.op)) + "  " +
         entry("view", spell(issue.view)) + "  " +
         entry("transfer",
               spell(issue.transfer > 0 ? issue.transfer : issue.copy)) +
         "  " + entry("copy", spell(issue.copy));
}

} // namespace

double OperatorRates::best(DType type) const {
  double best = 0;
  for (const ProbedProduct &product : products)
    if (product.type == type)
      best = std::max(best, product.flops);
  return best;
}

ProbedProduct OperatorRates::largestOfFastest() const {
  auto rank = [&](const ProbedProduct &product) {
    return std::pair(best(product.type), product.operations());
  };
  return *std::max_element(products.begin(), products.end(),
                           [&](const ProbedProduct &p, const ProbedProduct &q) {
                             return rank(p) < rank(q);
                           });
}

std::string toYaml(const ProbedCluster &cluster) {
  uint32_t locals = cluster.mesh.locals;
  // Without a peer, the link is as fast as the host, so that it limits nothing.
  auto orElse = [&](const std::optional<SharedLink> &link) {
    return link.value_or(cluster.h2d);
  };
  auto note = [](const std::optional<SharedLink> &link, const char *why) {
    return link ? "" : " # not measured: " + std::string(why);
  };
  std::string text = "# Measured by " + cluster.command +
                     ", with all ranks at work at once.\n";
  if (cluster.gpu)
    text += "# " + cluster.gpu->measured + "\n";
  text += "name: probed\n";
  text += "nodes: " + std::to_string(cluster.mesh.nodes) + "\n";
  text += "ranks_per_node: " + std::to_string(locals) + "\n";
  text += "device:\n" + entry("memory", std::to_string(cluster.deviceMemory)) +
          entry("memory_bandwidth", spell(cluster.memoryBandwidth)) +
          "  flops:\n";
  text += describeFlops(cluster);
  // The rates are what operators have reached, not peaks.
  text += entry("compute_efficiency", "1") +
          entry("memory_efficiency", spell(cluster.memoryEfficiency)) +
          entry("launch_latency", spell(cluster.launchLatency));
  if (cluster.gpu)
    text += describeGpu(cluster);
  else if (!cluster.products.empty())
    text += describeProducts(cluster.products) +
            entry("sustained", spell(cluster.sustained));
  text += "host:\n" + entry("memory", std::to_string(cluster.hostMemory));
  if (cluster.gpu)
    text += describeHostBandwidth(cluster.hostBandwidth) +
            describeIssue(cluster.gpu->issue);
  text += describeLink("inter", orElse(cluster.inter), locals,
                       note(cluster.inter, "there is one node"));
  text += describeLink("intra", orElse(cluster.intra), locals,
                       note(cluster.intra, "a node has one rank"));
  text += describeLink("h2d", cluster.h2d, locals, "");
  text += describeLink("d2h", cluster.d2h, locals, "");
  text += describeTables(cluster);
  if (cluster.gpu)
    text += "flat_collectives: ring\n";
  for (const ProbedRate &rate : cluster.rates)
    text += std::string(rate.section) + ":\n" + entry("rate", spell(rate.rate));
  return text + describeSpread(cluster);
}

} // namespace fcdp::probe
