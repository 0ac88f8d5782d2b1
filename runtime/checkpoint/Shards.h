// SPDX-License-Identifier: Apache-2.0
//
// Between whole parameters in files and the ranks' shards of buckets.
//
// A bucket is cut in equal shards, one per rank; rank (node n, local l) owns
// shard l N + n. Nothing here knows backends or jobs.
#pragma once

#include "checkpoint/SafetensorsWriter.h"
#include "checkpoint/WeightSource.h"

#include <functional>

namespace fcdp {

inline uint32_t shardOf(const Mesh &mesh, Place place) {
  return place.local * mesh.nodes + place.node;
}

/// Memory of this rank's shard of a bucket, or of a buffer.
using MemoryOf = std::function<std::span<std::byte>(size_t index)>;

/// Fills this rank's shards, padding with zeros. Throws std::runtime_error
/// that names file and parameter.
void loadShards(const Manifest &manifest, Place place, WeightSource &source,
                const MemoryOf &shard);

/// Fills the buffers that have no constant.
void loadBuffers(const Manifest &manifest, WeightSource &source,
                 const MemoryOf &buffer);

/// Collects a bucket's shards on the caller, in the order of world ranks; on
/// other ranks the result is not looked at.
using GatherShards = std::function<std::vector<std::byte>(size_t bucket)>;

/// Writes all parameters and the persistent buffers. All ranks call it, as
/// `gather` is called for each bucket; only `isWriter` writes.
void saveParameters(const Manifest &manifest, const std::string &path,
                    bool isWriter, const GatherShards &gather,
                    const MemoryOf &buffer);

} // namespace fcdp
