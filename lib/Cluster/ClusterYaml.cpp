// SPDX-License-Identifier: Apache-2.0
//
// The YAML of a cluster's description; docs/cluster.md has the schema.

#include "fcdp/Cluster/Cluster.h"

#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/YAMLTraits.h"

#include <cmath>

using namespace fcdp;
using namespace llvm::yaml;

/// Far above what a description takes: LLVM's parser calls itself for each
/// level of nesting.
static constexpr size_t kMaxBytes = 8 << 10;

namespace {
/// What the parser's callbacks share.
struct Reader {
  llvm::StringRef file;
  /// A message of ours; the parser keeps a reference to it.
  std::string message;
  /// The first complaint, with file and line.
  std::string complaint;
};

/// Numbers, in the places that they are read into.
struct Positive {
  double value;
};
struct NotNegative {
  double value;
};
struct Share {
  double value;
};
struct Count {
  int64_t value;
};
} // namespace

template <typename T>
static llvm::StringRef readNumber(llvm::StringRef scalar, void *context,
                                  llvm::StringRef expected, T isGood,
                                  double &value) {
  // getAsDouble takes what is no number in YAML, too ("0x1p3"); harmless.
  if (!scalar.getAsDouble(value) && std::isfinite(value) && isGood(value))
    return {};
  auto *reader = static_cast<Reader *>(context);
  reader->message =
      llvm::formatv("expected {0}, got '{1}'", expected, scalar).str();
  return reader->message;
}

namespace llvm::yaml {
template <>
struct ScalarTraits<Positive> {
  static void output(const Positive &value, void *, raw_ostream &stream) {
    stream << value.value;
  }
  static StringRef input(StringRef scalar, void *context, Positive &value) {
    return readNumber(
        scalar, context, "a positive number", [](double x) { return x > 0; },
        value.value);
  }
  static QuotingType mustQuote(StringRef) { return QuotingType::None; }
};
template <>
struct ScalarTraits<NotNegative> {
  static void output(const NotNegative &value, void *, raw_ostream &stream) {
    stream << value.value;
  }
  static StringRef input(StringRef scalar, void *context, NotNegative &value) {
    return readNumber(
        scalar, context, "0 or a positive number",
        [](double x) { return x >= 0; }, value.value);
  }
  static QuotingType mustQuote(StringRef) { return QuotingType::None; }
};
template <>
struct ScalarTraits<Share> {
  static void output(const Share &value, void *, raw_ostream &stream) {
    stream << value.value;
  }
  static StringRef input(StringRef scalar, void *context, Share &value) {
    return readNumber(
        scalar, context, "a number above 0 and at most 1",
        [](double x) { return x > 0 && x <= 1; }, value.value);
  }
  static QuotingType mustQuote(StringRef) { return QuotingType::None; }
};
template <>
struct ScalarTraits<Count> {
  static void output(const Count &value, void *, raw_ostream &stream) {
    stream << value.value;
  }
  static StringRef input(StringRef scalar, void *context, Count &count) {
    double value = 0;
    // Whole doubles below 2^62: 48e9 is as good as 48000000000.
    StringRef message = readNumber(
        scalar, context, "a positive whole number",
        [](double x) { return x > 0 && x < 0x1p62 && x == std::floor(x); },
        value);
    if (message.empty() && scalar.getAsInteger(10, count.value))
      count.value = static_cast<int64_t>(value);
    return message;
  }
  static QuotingType mustQuote(StringRef) { return QuotingType::None; }
};

template <>
struct ScalarEnumerationTraits<Sharing> {
  static void enumeration(IO &io, Sharing &value) {
    io.enumCase(value, "rank", Sharing::rank);
    io.enumCase(value, "switch", Sharing::switched);
    io.enumCase(value, "node", Sharing::node);
  }
};
} // namespace llvm::yaml

template <typename Number, typename T>
static void mapNumber(IO &io, const char *key, T &field) {
  Number number{field};
  io.mapRequired(key, number);
  field = number.value;
}

namespace llvm::yaml {
template <>
struct MappingTraits<FlopRates> {
  static void mapping(IO &io, FlopRates &flops) {
    mapNumber<Positive>(io, "f64", flops.f64);
    mapNumber<Positive>(io, "f32", flops.f32);
    mapNumber<Positive>(io, "bf16", flops.bf16);
    mapNumber<Positive>(io, "f16", flops.f16);
  }
};
template <>
struct MappingTraits<Device> {
  static void mapping(IO &io, Device &device) {
    mapNumber<Count>(io, "memory", device.memory);
    mapNumber<Positive>(io, "memory_bandwidth", device.memoryBandwidth);
    io.mapRequired("flops", device.flops);
    mapNumber<Share>(io, "compute_efficiency", device.computeEfficiency);
    mapNumber<Share>(io, "memory_efficiency", device.memoryEfficiency);
    mapNumber<NotNegative>(io, "launch_latency", device.launchLatency);
  }
};
template <>
struct MappingTraits<Host> {
  static void mapping(IO &io, Host &host) {
    mapNumber<Count>(io, "memory", host.memory);
  }
};
template <>
struct MappingTraits<Link> {
  static void mapping(IO &io, Link &link) {
    mapNumber<Positive>(io, "bandwidth", link.bandwidth);
    mapNumber<NotNegative>(io, "latency", link.latency);
    io.mapRequired("sharing", link.sharing);
    // Elsewhere it would say nothing, and is refused as an unknown key.
    if (link.sharing == Sharing::switched)
      mapNumber<Count>(io, "ranks_per_switch", link.ranksPerSwitch);
  }
};
template <>
struct MappingTraits<Cluster> {
  static void mapping(IO &io, Cluster &cluster) {
    io.mapRequired("name", cluster.name);
    mapNumber<Count>(io, "nodes", cluster.nodes);
    mapNumber<Count>(io, "ranks_per_node", cluster.ranksPerNode);
    io.mapRequired("device", cluster.device);
    io.mapRequired("host", cluster.host);
    io.mapRequired("inter", cluster.inter);
    io.mapRequired("intra", cluster.intra);
    io.mapRequired("h2d", cluster.h2d);
    io.mapRequired("d2h", cluster.d2h);
  }
  static std::string validate(IO &, Cluster &cluster) {
    return toString(cluster.check());
  }
};
} // namespace llvm::yaml

static void keepFirst(const llvm::SMDiagnostic &diagnostic, void *context) {
  auto *reader = static_cast<Reader *>(context);
  if (!reader->complaint.empty())
    return;
  reader->complaint =
      llvm::formatv("{0}:{1}: error: {2}", reader->file, // some have no place
                    std::max(diagnostic.getLineNo(), 1),
                    diagnostic.getMessage())
          .str();
}

llvm::Expected<Cluster> fcdp::parseCluster(llvm::MemoryBufferRef text) {
  auto fail = [&](const llvm::Twine &message) {
    return llvm::createStringError(text.getBufferIdentifier() +
                                   ":1: error: " + message);
  };
  if (text.getBufferSize() > kMaxBytes)
    return fail("expected a description of at most " + llvm::Twine(kMaxBytes) +
                " bytes, got " + llvm::Twine(text.getBufferSize()));
  Reader reader;
  reader.file = text.getBufferIdentifier();
  Input input(text, &reader, keepFirst, &reader);
  Cluster cluster;
  EmptyContext context;
  bool found = input.setCurrentDocument();
  // Where the parser refuses the whole document there is no node to map.
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
