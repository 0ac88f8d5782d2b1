// SPDX-License-Identifier: Apache-2.0
//
// Reads the YAML of a cluster's description; docs/cluster.md has the schema.

#include "fcdp/Cluster/Cluster.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/YAMLTraits.h"

#include <cmath>

using namespace fcdp;
using namespace llvm::yaml;

/// Limit on the size of a description, far above what one needs. LLVM's parser
/// recurses for each level of nesting, so a large file could exhaust the stack.
static constexpr size_t kMaxBytes = 8 << 10;

namespace {
/// State that the parser's callbacks share.
struct Reader {
  llvm::StringRef file;
  /// The message of the last number that was refused. The parser keeps a
  /// reference to it.
  std::string message;
  /// The first error, with file and line.
  std::string complaint;
};

// Numbers with the range that the schema allows for each.
struct Positive {
  double value;
  static constexpr char kExpected[] = "a positive number";
  bool isGood() const { return value > 0; }
};
struct NotNegative {
  double value;
  static constexpr char kExpected[] = "0 or a positive number";
  bool isGood() const { return value >= 0; }
};
struct Share {
  double value;
  static constexpr char kExpected[] = "a number above 0 and at most 1";
  bool isGood() const { return value > 0 && value <= 1; }
};
/// Doubles represent whole numbers exactly below 2^53.
struct Count {
  double value;
  static constexpr char kExpected[] = "a positive whole number below 2^53";
  bool isGood() const {
    return value > 0 && value < 0x1p53 && value == std::floor(value);
  }
};

template <typename Number>
struct NumberTraits {
  static void output(const Number &number, void *, llvm::raw_ostream &stream) {
    // 17 significant digits distinguish all doubles.
    stream << llvm::format("%.17g", number.value);
  }
  static llvm::StringRef input(llvm::StringRef scalar, void *context,
                               Number &number) {
    if (!scalar.getAsDouble(number.value) && std::isfinite(number.value) &&
        number.isGood())
      return {};
    number.value = 0; // a refused value is converted too
    auto *reader = static_cast<Reader *>(context);
    reader->message =
        llvm::formatv("expected {0}, got '{1}'", &Number::kExpected[0], scalar);
    return reader->message;
  }
  static QuotingType mustQuote(llvm::StringRef) { return QuotingType::None; }
};
} // namespace

namespace llvm::yaml {
template <>
struct ScalarTraits<Positive> : NumberTraits<Positive> {};
template <>
struct ScalarTraits<NotNegative> : NumberTraits<NotNegative> {};
template <>
struct ScalarTraits<Share> : NumberTraits<Share> {};
template <>
struct ScalarTraits<Count> : NumberTraits<Count> {};

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
} // namespace llvm::yaml

template <typename Number, typename T>
static void mapNumber(IO &io, const char *key, T &field) {
  Number number{static_cast<double>(field)};
  io.mapRequired(key, number);
  field = static_cast<T>(number.value);
}

template <typename Number>
static void mapNumber(IO &io, const char *key, std::optional<double> &field) {
  std::optional<Number> number;
  if (field)
    number = Number{*field};
  io.mapOptional(key, number);
  field.reset();
  if (number)
    field = number->value;
}

/// Leaves `field` as it is if the description does not have it.
static void mapWithDefault(IO &io, const char *key, double &field) {
  std::optional<double> given = field;
  mapNumber<Positive>(io, key, given);
  field = given.value_or(field);
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
    mapNumber<Share>(io, "attention_efficiency", device.attentionEfficiency);
    mapNumber<NotNegative>(io, "launch_latency", device.launchLatency);
  }
};
template <>
struct MappingTraits<Host> {
  static void mapping(IO &io, Host &host) {
    mapNumber<Count>(io, "memory", host.memory);
    mapNumber<Positive>(io, "memory_bandwidth", host.memoryBandwidth);
    std::optional<double> numaNodes = host.numaNodes;
    mapNumber<Count>(io, "numa_nodes", numaNodes);
    host.numaNodes = static_cast<int64_t>(numaNodes.value_or(1));
  }
};
template <>
struct MappingTraits<Link> {
  static void mapping(IO &io, Link &link) {
    mapNumber<Positive>(io, "bandwidth", link.bandwidth);
    mapNumber<NotNegative>(io, "latency", link.latency);
    io.mapRequired("sharing", link.sharing);
    // Any other sharing refuses this key as unknown.
    if (link.sharing == Sharing::switched)
      mapNumber<Count>(io, "ranks_per_switch", link.ranksPerSwitch);
  }
};
template <>
struct MappingTraits<Codec> {
  static void mapping(IO &io, Codec &codec) {
    mapWithDefault(io, "rate", codec.rate);
    mapWithDefault(io, "delta_bits", codec.deltaBits);
    mapWithDefault(io, "coded_bits", codec.codedBits);
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
    io.mapOptional("flat_collectives", cluster.flatCollectives);
    io.mapOptional("codec", cluster.codec);
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
      llvm::formatv("{0}:{1}: error: {2}", reader->file, // some have no line
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
