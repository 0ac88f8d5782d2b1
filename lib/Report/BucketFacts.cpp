// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Report/BucketFacts.h"

#include "fcdp/Transforms/Strategy.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace fcdp;

/// Of a bucket of `bytes` that is cut over all ranks, or over those of a node.
static ResidencyFacts measure(Residency residency, int64_t bytes,
                              Sharding sharding, const CostModel &model) {
  const Cluster &cluster = model.getCluster();
  int64_t locals = cluster.ranksPerNode, slice = bytes / locals;
  double inNode = model.costOfGather(Axis::local, locals, slice).getTotal();
  switch (residency) {
  case Residency::full:
    return {0, bytes, 0};
  case Residency::node:
    return {inNode, slice, 0};
  case Residency::host:
    return {model.costOfLoad(slice).getTotal() + inNode, 0, bytes};
  case Residency::drop:
    if (sharding == Sharding::node)
      return {inNode, 0, 0};
    return {model.costOfGather(Axis::node, cluster.nodes, slice / cluster.nodes)
                    .getTotal() +
                inNode,
            0, 0};
  }
  llvm_unreachable("unknown residency");
}

std::vector<BucketFacts> fcdp::describeBuckets(ModuleOp module,
                                               const CostModel &model) {
  std::vector<BucketFacts> all;
  for (auto op : module.getOps<BucketOp>()) {
    BucketFacts bucket;
    bucket.name = op.getName();
    bucket.unit = op.getUnit();
    bucket.isTrainable = op.getTrainable();
    bucket.bytes =
        static_cast<int64_t>(op.getElements()) * elementBytes(op.getWire());
    bucket.sharding = op.getSharding();
    bucket.residency = op.getResidency().value_or(Residency::drop);
    bucket.carry = op.getCarry().value_or(bucket.residency);
    bucket.accumulation = op.getAccumulation().value_or(Accumulation::sharded);
    for (unsigned i = 0; i < kNumResidencies; ++i) {
      auto residency = static_cast<Residency>(i);
      if (isPossible(bucket.sharding, residency))
        bucket.choices[i] =
            measure(residency, bucket.bytes, bucket.sharding, model);
    }
    all.push_back(std::move(bucket));
  }
  return all;
}

/// `drop 4.1 ms`, with what it keeps.
static void print(Residency residency, const ResidencyFacts &facts,
                  llvm::raw_ostream &stream) {
  stream << stringifyResidency(residency)
         << llvm::format(" %.3g ms", 1e3 * facts.seconds);
  if (facts.device != 0)
    stream << llvm::format(" and %.3g MiB of each device",
                           facts.device / 0x1p20);
  if (facts.host != 0)
    stream << llvm::format(" and %.3g MiB of each host", facts.host / 0x1p20);
}

static std::string explainChoice(const BucketFacts &bucket,
                                 llvm::StringRef strategy) {
  if (strategy == kAutoStrategy)
    return "the fastest step that was found has it so";
  llvm::Expected<Strategy> preset = parseStrategy(strategy);
  if (!preset) {
    llvm::consumeError(preset.takeError());
    return "it was given";
  }
  if (preset->residency == bucket.residency && preset->carry == bucket.carry)
    return ("strategy " + strategy + " does so with every bucket").str();
  return "it was given, or its sharding leaves nothing else";
}

std::string fcdp::explain(const BucketFacts &bucket, llvm::StringRef strategy) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  stream << explainChoice(bucket, strategy);
  if (!bucket.isTrainable)
    stream << "; frozen: what is kept stays valid for the whole job";
  stream << ". To use it again takes ";
  bool isFirst = true;
  for (unsigned i = 0; i < kNumResidencies; ++i) {
    if (!bucket.choices[i])
      continue;
    stream << (isFirst ? "" : ", ");
    print(static_cast<Residency>(i), *bucket.choices[i], stream);
    isFirst = false;
  }
  return text;
}
