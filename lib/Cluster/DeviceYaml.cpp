// SPDX-License-Identifier: Apache-2.0
//
// Reads the YAML of a device; docs/cluster.md has the schema.

#include "DeviceYaml.h"

#include "YamlNumbers.h"

using namespace fcdp;
using namespace llvm::yaml;

/// Reads a curve of shares. It stays as it is if there is no `key`.
static void mapShares(IO &io, const char *key, RateCurve &curve) {
  std::optional<NumberRows> rows;
  io.mapOptional(key, rows);
  if (!rows)
    return;
  curve.points.clear();
  for (const NumberRow &row : *rows) {
    if (row.size() != 2 || row[1].value > 1)
      return io.setError(llvm::Twine("expected '") + key +
                         "' to be a list of [size, share], each share above 0 "
                         "and at most 1");
    if (!curve.empty() && row[0].value <= curve.points.back().size)
      return io.setError(llvm::Twine("expected the sizes of '") + key +
                         "' to ascend");
    curve.points.push_back({row[0].value, row[1].value});
  }
}

namespace llvm::yaml {
template <>
struct ScalarEnumerationTraits<RateType> {
  static void enumeration(IO &io, RateType &value) {
    io.enumCase(value, "f64", RateType::f64);
    io.enumCase(value, "f32", RateType::f32);
    io.enumCase(value, "bf16", RateType::bf16);
    io.enumCase(value, "f16", RateType::f16);
  }
};
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
struct MappingTraits<MeasuredProduct> {
  static void mapping(IO &io, MeasuredProduct &product) {
    io.mapRequired("type", product.type);
    product.shape.batch = 1;
    mapWithDefault<Count>(io, "batch", product.shape.batch);
    mapOwnNumber<Count>(io, "m", product.shape.m);
    mapOwnNumber<Count>(io, "n", product.shape.n);
    mapOwnNumber<Count>(io, "k", product.shape.k);
    mapOwnNumber<Positive>(io, "flops", product.flops);
  }
};
template <>
struct SequenceTraits<std::vector<MeasuredProduct>>
    : ListTraits<std::vector<MeasuredProduct>> {};
template <>
struct MappingTraits<AttentionRates> {
  static void mapping(IO &io, AttentionRates &attention) {
    mapShares(io, "forward", attention.forward);
    mapShares(io, "backward", attention.backward);
    mapWithDefault<Share>(io, "masked", attention.masked);
    mapWithDefault<Share>(io, "narrow", attention.narrow);
  }
};

template <>
struct MappingTraits<DeviceReserve> {
  static void mapping(IO &io, DeviceReserve &reserve) {
    mapWithDefault<ByteCount>(io, "context", reserve.context);
    mapWithDefault<ByteCount>(io, "communicators", reserve.communicators);
    mapWithDefault<ByteCount>(io, "workspace", reserve.workspace);
    mapWithDefault<NotNegative>(io, "allocator", reserve.allocator);
  }
};

void MappingTraits<Device>::mapping(IO &io, Device &device) {
  mapNumber<Count>(io, "memory", device.memory);
  io.mapOptional("reserved", device.reserve);
  mapNumber<Positive>(io, "memory_bandwidth", device.memoryBandwidth);
  mapUnlessInherited(io, "flops", device.flops);
  mapWithDefault<Positive>(io, "compute_capability", device.computeCapability);
  mapNumber<Share>(io, "compute_efficiency", device.computeEfficiency);
  mapNumber<Share>(io, "memory_efficiency", device.memoryEfficiency);
  mapShares(io, "memory_curve", device.memoryCurve);
  std::optional<double> processors;
  mapNumber<Count>(io, "processors", processors);
  if (processors)
    device.processors = static_cast<int64_t>(*processors);
  mapList(io, "products", device.products);
  io.mapOptional("attention", device.attention);
  mapWithDefault<PartialShare>(io, "collective_share", device.collectiveShare);
  mapWithDefault<Share>(io, "sustained", device.sustained);
  mapWithDefault<PartialShare>(io, "variation", device.variation);
  mapNumber<NotNegative>(io, "launch_latency", device.launchLatency);
}
} // namespace llvm::yaml
