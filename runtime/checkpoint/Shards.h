// SPDX-License-Identifier: Apache-2.0
//
// Conversion between whole parameters in files and the ranks' shards of
// buckets.
//
// A bucket has equal parts, which ranks own by its sharding. This code does not
// depend on backends or jobs.
#pragma once

#include "plan/StatePlaces.h"
#include "weights/WeightSource.h"

#include <functional>

namespace fcdp {

/// Returns the world ranks that own each part of a bucket, in the parts' order.
std::vector<std::vector<uint32_t>> replicasOf(const plan::BucketT &bucket,
                                              const Mesh &mesh);
/// Returns the first owner of each part.
std::vector<uint32_t> ownersOf(const plan::BucketT &bucket, const Mesh &mesh);

/// Returns the parameters of each bucket, in the order of their places in it.
std::vector<std::vector<const plan::ParameterT *>>
membersOf(const StepPlan &plan);

/// Returns the memory of this rank's shard of a bucket, or of a buffer.
using MemoryOf = std::function<std::span<std::byte>(size_t index)>;

/// Fills this rank's shards and, for buckets with a master, the masters,
/// padding with zeros. Floating types of the file are converted. A master gets
/// the value in f32, and the shard is its rounding. Packed parameters are
/// packed, each rank's shard of them alone. Throws std::runtime_error that
/// names file and parameter.
void loadShards(const StepPlan &plan, Place place, WeightSource &source,
                const MemoryOf &shard, const MemoryOf &master);

/// Fills the buffers that have no constant, with the same conversions.
void loadBuffers(const StepPlan &plan, WeightSource &source,
                 const MemoryOf &buffer);

} // namespace fcdp
