// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Transforms/Options/Strategy.h"

#include "fcdp/Support/DidYouMean.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace fcdp;

namespace {
struct Preset {
  llvm::StringLiteral name;
  Strategy strategy;
};
} // namespace

// Sources: ZeRO++ (arXiv 2306.10209) has hpz, arXiv 2602.06499 fcdp, FSDP
// (arXiv 2304.11277) hsdp as HYBRID_SHARD, and arXiv 2205.00119 mics, here with
// a node as its group.
static constexpr Preset kPresets[] = {
    {"zero1", {Residency::full, Residency::full, Accumulation::full}},
    {"zero2", {Residency::full, Residency::full, Accumulation::sharded}},
    {"zero3", {Residency::drop, Residency::drop, Accumulation::sharded}},
    {"hpz", {Residency::node, Residency::node, Accumulation::sharded}},
    {"fcdp", {Residency::host, Residency::host, Accumulation::sharded}},
    {"ddp",
     {Residency::full, Residency::full, Accumulation::sharded, Sharding::none}},
    {"hsdp",
     {Residency::drop, Residency::drop, Accumulation::sharded, Sharding::node}},
    {"mics",
     {Residency::drop, Residency::drop, Accumulation::node, Sharding::node}},
};

llvm::Expected<Strategy> fcdp::parseStrategy(llvm::StringRef name) {
  for (const Preset &preset : kPresets)
    if (preset.name == name)
      return preset.strategy;
  llvm::SmallVector<llvm::StringRef> known = {kAutoStrategy};
  for (const Preset &preset : kPresets)
    known.push_back(preset.name);
  auto quote = [](const Preset &preset) {
    return "'" + preset.name.str() + "'";
  };
  return llvm::createStringError(
      "expected one of " + llvm::join(llvm::map_range(kPresets, quote), ", ") +
      " or '" + kAutoStrategy.str() + "', got '" + name + "'" +
      didYouMean(name, known));
}

llvm::Expected<Accumulation> fcdp::parseAccumulation(llvm::StringRef name) {
  if (std::optional<Accumulation> accumulation = symbolizeAccumulation(name))
    return *accumulation;
  return llvm::createStringError(
      "expected 'sharded', 'node', 'node_host' or 'full', got '" + name + "'");
}

llvm::Expected<std::optional<Collectives>>
fcdp::parseCollectives(llvm::StringRef name) {
  if (name == "two-level")
    return Collectives::two_level;
  if (name == "flat")
    return Collectives::flat;
  if (name == "auto")
    return std::nullopt;
  return llvm::createStringError(
      "expected 'two-level', 'flat' or 'auto', got '" + name + "'");
}

/// Returns the residency that is equivalent to `residency` for a bucket whose
/// shard is its node slice, or the whole bucket.
static Residency adapt(Residency residency, Sharding sharding) {
  if (isPossible(sharding, residency))
    return residency;
  return sharding == Sharding::node ? Residency::drop : Residency::full;
}

void fcdp::applyStrategy(BucketOp bucket, const Strategy &strategy) {
  if (!bucket.getResidency()) {
    Residency residency = adapt(strategy.residency, bucket.getSharding());
    Residency carry = adapt(strategy.carry, bucket.getSharding());
    bucket.setResidency(residency);
    if (!bucket.getCarry() && carry != residency)
      bucket.setCarry(carry);
  }
  if (bucket.getTrainable() && !bucket.getAccumulation() &&
      strategy.accumulation != Accumulation::sharded)
    bucket.setAccumulation(strategy.accumulation);
  if (!bucket.getCollectives() &&
      strategy.collectives != Collectives::two_level)
    bucket.setCollectives(strategy.collectives);
}
