// SPDX-License-Identifier: Apache-2.0
#include "session/StateByName.h"

#include "checkpoint/Shards.h"

#include <algorithm>
#include <cstring>

namespace fcdp {

namespace {

constexpr const char *kGather = "gather of the parameters";

const char *spell(StateRole role) {
  switch (role) {
  case StateRole::Value:
    return "value";
  case StateRole::ExpAvg:
    return "exp_avg";
  case StateRole::ExpAvgSq:
    return "exp_avg_sq";
  case StateRole::MomentumBuffer:
    return "momentum_buffer";
  }
  return "role";
}

const std::optional<TypedBuf> &regionOf(const Bucket &bucket, StateRole role) {
  switch (role) {
  case StateRole::ExpAvg:
    return bucket.expAvg;
  case StateRole::ExpAvgSq:
    return bucket.expAvgSq;
  case StateRole::MomentumBuffer:
    return bucket.momentumBuffer;
  case StateRole::Value:
    break;
  }
  return bucket.shard;
}

/// The part of a parameter that one shard of its bucket holds, in bytes.
struct Piece {
  size_t inParameter, inShard, bytes;
};

Piece pieceOf(const NamedState &state, const Bucket &bucket, uint32_t part) {
  const Parameter &parameter = *state.parameter;
  int64_t begin = int64_t(part) * bucket.shardElements;
  int64_t first = std::max(begin, parameter.offsetElements);
  int64_t end =
      std::min(begin + bucket.shardElements,
               parameter.offsetElements + numElements(parameter.shape));
  if (first >= end)
    return {0, 0, 0};
  size_t width = byteSize(state.dtype);
  return {size_t(first - parameter.offsetElements) * width,
          size_t(first - begin) * width, size_t(end - first) * width};
}

} // namespace

NamedState findState(const Manifest &manifest, const std::string &name,
                     StateRole role) {
  for (const Parameter &parameter : manifest.parameters) {
    if (std::find(parameter.names.begin(), parameter.names.end(), name) ==
        parameter.names.end())
      continue;
    const auto &region = regionOf(manifest.buckets[parameter.bucket], role);
    if (!region)
      throw SessionError(SessionErrorCode::Misuse,
                         "parameter '" + name + "' has no " + spell(role) +
                             " in this step");
    return {&parameter, 0, &*region, region->dtype, &parameter.shape};
  }
  for (size_t i = 0; i < manifest.buffers.size(); ++i)
    if (manifest.buffers[i].name == name && role == StateRole::Value)
      return {nullptr, i, nullptr, manifest.buffers[i].dtype,
              &manifest.buffers[i].shape};
  throw SessionError(SessionErrorCode::Misuse,
                     "the step has no state '" + name + "'");
}

void scatterState(const Manifest &manifest, Place place, Step &step,
                  const NamedState &state, const std::byte *value) {
  if (!state.parameter) {
    std::span<std::byte> own = step.buffer(state.buffer);
    std::copy(value, value + own.size(), own.begin());
    return;
  }
  const Bucket &bucket = manifest.buckets[state.parameter->bucket];
  Piece piece =
      pieceOf(state, bucket, partOf(bucket.sharding, manifest.mesh, place));
  if (piece.bytes != 0)
    std::memcpy(step.region(*state.region).data() + piece.inShard,
                value + piece.inParameter, piece.bytes);
}

void gatherState(const Manifest &manifest, Job &job, Step &step,
                 const NamedState &state, std::byte *out) {
  if (!state.parameter) {
    std::span<std::byte> own = step.buffer(state.buffer);
    if (job.rank() == 0)
      std::copy(own.begin(), own.end(), out);
    return;
  }
  const Bucket &bucket = manifest.buckets[state.parameter->bucket];
  std::span<std::byte> own = step.region(*state.region);
  std::vector<Send> sends;
  std::vector<Recv> recvs;
  std::vector<uint32_t> owners = ownersOf(bucket, manifest.mesh);
  for (uint32_t part = 0; part < owners.size(); ++part) {
    Piece piece = pieceOf(state, bucket, part);
    if (piece.bytes == 0)
      continue;
    bool isOwn = owners[part] == job.rank();
    if (job.rank() == 0 && isOwn)
      std::memcpy(out + piece.inParameter, own.data() + piece.inShard,
                  piece.bytes);
    else if (job.rank() == 0)
      recvs.push_back({owners[part], out + piece.inParameter, piece.bytes});
    else if (isOwn)
      sends.push_back({0, own.data() + piece.inShard, piece.bytes});
  }
  job.control().exchange(sends, recvs, kGather);
}

std::vector<std::byte> gatherShards(const Manifest &manifest, Job &job,
                                    Step &step, size_t bucket) {
  std::span<std::byte> own = step.shard(bucket);
  Transport &control = job.control();
  std::vector<uint32_t> owners =
      ownersOf(manifest.buckets[bucket], manifest.mesh);
  if (job.rank() != 0) {
    std::vector<Send> sends;
    if (std::find(owners.begin(), owners.end(), job.rank()) != owners.end())
      sends.push_back({0, own.data(), own.size()});
    control.exchange(sends, {}, kGather);
    return {};
  }
  // Rank 0 owns part 0, however a bucket is cut.
  std::vector<std::byte> all(own.size() * owners.size());
  std::copy(own.begin(), own.end(), all.begin());
  std::vector<Recv> recvs;
  for (size_t part = 1; part < owners.size(); ++part)
    recvs.push_back({owners[part], all.data() + part * own.size(), own.size()});
  control.exchange({}, recvs, kGather);
  return all;
}

} // namespace fcdp
