// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Report/BucketFacts.h"

#include "dialects/Fcdp/Tiers.h"
#include "fcdp/Transforms/Options/Strategy.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace fcdp;

/// Returns the seconds for gathering the slices within a node.
static double gatherInNode(const BucketFacts &bucket, const CostModel &model) {
  int64_t ranks = model.getCluster().ranksPerNode;
  return model.costOfGather(Axis::local, ranks, bucket.bytes / ranks)
      .getTotal();
}

/// Returns the seconds for gathering the shards of all ranks.
static double gatherShards(const BucketFacts &bucket, const CostModel &model) {
  const Cluster &cluster = model.getCluster();
  double shard = bucket.bytes / cluster.getWorldSize();
  if (bucket.collectives == Collectives::flat)
    return model.costOfFlatGather(shard).getTotal();
  return model.costOfGather(Axis::node, cluster.nodes, shard).getTotal() +
         gatherInNode(bucket, model);
}

/// Returns the seconds for fetching a copy of the bucket.
static double fetch(CopyFetch way, const BucketFacts &bucket, int64_t slice,
                    const CostModel &model) {
  switch (way) {
  case CopyFetch::view:
    return 0;
  case CopyFetch::gatherWithin:
    return gatherInNode(bucket, model);
  case CopyFetch::load:
    return model.costOfLoad(slice).getTotal() + gatherInNode(bucket, model);
  case CopyFetch::gatherAll:
    // With `sharding node` a rank's shard is its node slice.
    return bucket.sharding == Sharding::node ? gatherInNode(bucket, model)
                                             : gatherShards(bucket, model);
  }
  llvm_unreachable("unknown way to fetch");
}

static ResidencyFacts measure(const Tier &tier, const BucketFacts &bucket,
                              const CostModel &model) {
  int64_t slice = bucket.bytes / model.getCluster().ranksPerNode;
  ResidencyFacts facts{fetch(tier.fetchedBy, bucket, slice, model), 0, 0};
  if (tier.arena == Arena::device)
    facts.device = tier.getKeptBytes(bucket.bytes, slice);
  else if (tier.owner == CopyOwner::node) // the slices of all ranks
    facts.host = bucket.bytes;
  return facts;
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
    bucket.collectives = op.getCollectives().value_or(Collectives::two_level);
    bucket.messages = getMessageForms(op);
    for (auto [choice, tier] : llvm::zip_equal(bucket.choices, kTiers))
      if (isPossible(bucket.sharding, tier.residency))
        choice = measure(tier, bucket, model);
    all.push_back(std::move(bucket));
  }
  return all;
}

/// Prints the cost of a residency, e.g. `drop 4.1 ms`.
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
    return "it is part of the fastest plan that was found";
  llvm::Expected<Strategy> preset = parseStrategy(strategy);
  if (!preset) {
    llvm::consumeError(preset.takeError());
    return "it was given explicitly";
  }
  if (preset->residency == bucket.residency && preset->carry == bucket.carry)
    return ("strategy " + strategy + " sets it for every bucket").str();
  return "it was given explicitly, or its sharding allows nothing else";
}

std::string fcdp::explain(const BucketFacts &bucket, llvm::StringRef strategy) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  stream << explainChoice(bucket, strategy);
  if (!bucket.isTrainable)
    stream << "; the bucket is frozen, so a kept copy stays valid for the "
              "whole job";
  stream << ". The next use takes ";
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
