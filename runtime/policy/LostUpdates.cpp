// SPDX-License-Identifier: Apache-2.0
#include "policy/LostUpdates.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

namespace fcdp {

namespace {

bool mayLose(const StepPlan &plan, const plan::ShardUpdateT &update) {
  const plan::BucketT &bucket = *plan.buckets[update.bucket];
  const DType type = toDType(bucket.storage);
  return (type == DType::BF16 || type == DType::F16) &&
         factsOf(plan.optimizerOf(update)).isRateSized &&
         !findState(bucket, plan::StateRole::master);
}

/// Returns whether `value` does not change if it moves by `rate`, and decays,
/// in either direction.
template <typename T>
bool stays(T value, double rate, double decay) {
  const float from = value;
  if (!std::isfinite(from))
    return false;
  const auto decayed = double(from) * (1 - rate * decay);
  return float(T(float(decayed + rate))) == from &&
         float(T(float(decayed - rate))) == from;
}

/// Returns whether each number of 16 bits does not change, by its bits.
std::vector<bool> findStaying(DType type, double rate, double decay) {
  std::vector<bool> staying(1 << 16);
  for (size_t bits = 0; bits < staying.size(); ++bits)
    staying[bits] =
        type == DType::BF16
            ? stays(c10::BFloat16(uint16_t(bits), c10::BFloat16::from_bits()),
                    rate, decay)
            : stays(c10::Half(uint16_t(bits), c10::Half::from_bits()), rate,
                    decay);
  return staying;
}

double countStaying(std::span<const std::byte> elements,
                    const std::vector<bool> &staying) {
  size_t count = 0;
  for (size_t i = 0; i < elements.size(); i += sizeof(uint16_t)) {
    uint16_t bits;
    std::memcpy(&bits, elements.data() + i, sizeof(bits));
    count += staying[bits];
  }
  return double(count);
}

class LostUpdateCounter {
public:
  LostUpdateCounter(const StepPlan &plan, Place place, double rate,
                    const ReadShard &readShard)
      : plan(plan), place(place), rate(rate), readShard(readShard) {}

  UpdateCount count() {
    for (const auto &op : plan.ops)
      if (const auto *update = StepPlan::updateOf(*op);
          update && update->begin == 0)
        countBucket(*update);
    return total;
  }

private:
  void countBucket(const plan::ShardUpdateT &update) {
    const plan::BucketT &bucket = *plan.buckets[update.bucket];
    const auto &optimizer = plan.optimizerOf(update);
    const double base = plan.learningRate();
    const double own =
        base == 0 ? rate : rate * fcdp::learningRate(optimizer) / base;
    for (const auto &parameter : plan.parameters)
      if (parameter->trainable && parameter->bucket == update.bucket)
        countParameter(*parameter, bucket, optimizer, own,
                       mayLose(plan, update));
  }

  void countParameter(const plan::ParameterT &parameter,
                      const plan::BucketT &bucket,
                      const plan::OptimizerUnion &optimizer, double own,
                      bool losesUpdates) {
    const uint64_t begin =
        partOf(bucket.sharding, plan.mesh, place) * bucket.shardElements;
    const uint64_t first = std::max<uint64_t>(parameter.offsetElements, begin);
    const uint64_t end = std::min(parameter.offsetElements +
                                      uint64_t(numElements(parameter.shape)),
                                  begin + bucket.shardElements);
    if (first >= end)
      return;
    total.elements += double(end - first);
    if (!losesUpdates)
      return;
    double decay = weightDecay(optimizer);
    if (parameter.group) {
      own *= plan.groups[*parameter.group]->lrFactor;
      decay = plan.groups[*parameter.group]->weightDecay;
    }
    total.lost += countStaying(readShard(parameter.bucket)
                                   .subspan((first - begin) * sizeof(uint16_t),
                                            (end - first) * sizeof(uint16_t)),
                               stayingFor(toDType(bucket.storage), own, decay));
  }

  const std::vector<bool> &stayingFor(DType type, double own, double decay) {
    auto [found, isNew] = tables.try_emplace({type, {own, decay}});
    if (isNew)
      found->second = findStaying(type, own, decay);
    return found->second;
  }

  const StepPlan &plan;
  const Place place;
  const double rate;
  const ReadShard &readShard;
  UpdateCount total;
  /// The tables by type, rate and decay.
  std::map<std::pair<DType, std::pair<double, double>>, std::vector<bool>>
      tables;
};

} // namespace

bool mayLoseUpdates(const StepPlan &plan) {
  return std::any_of(plan.ops.begin(), plan.ops.end(), [&](const auto &op) {
    const auto *update = StepPlan::updateOf(*op);
    return update && mayLose(plan, *update);
  });
}

UpdateCount countLostUpdates(const StepPlan &plan, Place place, double rate,
                             const ReadShard &readShard) {
  return LostUpdateCounter(plan, place, rate, readShard).count();
}

UpdateCount sumOverRanks(const UpdateCount &own,
                         const GatherOverRanks &gather) {
  const double numbers[] = {own.elements, own.lost};
  const std::vector<double> sums =
      sumOverRanks(numbers, "count of updates that are lost", gather);
  return {sums[0], sums[1]};
}

std::string describeLostUpdates(const UpdateCount &count, double rate) {
  if (count.lost == 0)
    return "";
  char text[256];
  std::snprintf(text, sizeof(text),
                "an update of the learning rate %g does not change %.3g%% of "
                "the trained elements (%.0f of %.0f): they are in bf16 or f16, "
                "which round it away; compile with --master=f32",
                rate, 100 * count.lost / count.elements, count.lost,
                count.elements);
  return text;
}

} // namespace fcdp
