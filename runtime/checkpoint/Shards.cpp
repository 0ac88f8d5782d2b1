// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/Shards.h"

#include "checkpoint/PackedWeights.h"
#include "core/SumKernels.h"

#include <algorithm>

namespace fcdp {

namespace {

/// This rank's part of a bucket, in one type. It is zero at first.
struct OwnedValues {
  OwnedValues(std::span<std::byte> memory, DType dtype)
      : memory(memory), dtype(dtype) {
    std::fill(memory.begin(), memory.end(), std::byte(0));
  }
  std::byte *at(const ShardRange &range) const {
    return memory.data() + size_t(range.inShard) * byteSize(dtype);
  }
  void convert(const OwnedValues &from, const ShardRange &range) const {
    convertElements(at(range), dtype, from.at(range), from.dtype,
                    size_t(range.elements));
  }

  std::span<std::byte> memory;
  DType dtype;
};

} // namespace

std::vector<std::vector<const plan::ParameterT *>>
membersOf(const StepPlan &plan) {
  std::vector<std::vector<const plan::ParameterT *>> members(
      plan.buckets.size());
  for (const auto &parameter : plan.parameters)
    members[parameter->bucket].push_back(parameter.get());
  // Parameters without elements may share an offset; the plan's order decides.
  for (auto &bucket : members)
    std::stable_sort(bucket.begin(), bucket.end(),
                     [](const plan::ParameterT *a, const plan::ParameterT *b) {
                       return a->offsetElements < b->offsetElements;
                     });
  return members;
}

std::vector<std::vector<uint32_t>> replicasOf(const plan::BucketT &bucket,
                                              const Mesh &mesh) {
  std::vector<std::vector<uint32_t>> replicas(
      countParts(bucket.sharding, mesh));
  for (uint32_t rank = 0; rank < mesh.size(); ++rank)
    replicas[partOf(bucket.sharding, mesh, placeOf(mesh, rank))].push_back(
        rank);
  return replicas;
}

std::vector<uint32_t> ownersOf(const plan::BucketT &bucket, const Mesh &mesh) {
  std::vector<uint32_t> owners;
  for (const std::vector<uint32_t> &ranks : replicasOf(bucket, mesh))
    owners.push_back(ranks.front());
  return owners;
}

void loadShards(const StepPlan &plan, Place place, WeightSource &source,
                const MemoryOf &shard, const MemoryOf &master) {
  auto members = membersOf(plan);
  for (size_t b = 0; b < plan.buckets.size(); ++b) {
    const plan::BucketT &bucket = *plan.buckets[b];
    std::optional<OwnedValues> wide;
    OwnedValues own(shard(b), toDType(bucket.storage));
    if (findState(bucket, plan::StateRole::master))
      wide.emplace(master(b), DType::F32);
    uint32_t part = partOf(bucket.sharding, plan.mesh, place);
    for (const plan::ParameterT *parameter : members[b]) {
      const OwnedValues &read = wide ? *wide : own;
      if (parameter->packed) {
        ShardRange range = rangeOf(*parameter, bucket, part);
        loadPacked(*parameter, source, range.inParameter,
                   {own.at(range), size_t(range.elements)});
        continue;
      }
      StoredTensor tensor = requireConvertible(source, parameter->names,
                                               parameter->shape, own.dtype);
      ShardRange range = rangeOf(*parameter, bucket, part);
      convertElements(tensor, range.inParameter, range.elements, read.dtype,
                      read.at(range));
      if (wide)
        own.convert(*wide, range);
    }
    source.dropPages();
  }
}

void loadBuffers(const StepPlan &plan, WeightSource &source,
                 const MemoryOf &buffer) {
  for (size_t b = 0; b < plan.buffers.size(); ++b) {
    const plan::BufferT &spec = *plan.buffers[b];
    if (spec.constantOffset)
      continue;
    DType dtype = toDType(spec.dtype);
    StoredTensor tensor =
        requireConvertible(source, {spec.name}, spec.shape, dtype);
    convertElements(tensor, 0, numElements(spec.shape), dtype,
                    buffer(b).data());
  }
}

} // namespace fcdp
