// SPDX-License-Identifier: Apache-2.0
#include "state/StateByName.h"

#include "checkpoint/Shards.h"
#include "core/SessionError.h"
#include "core/SumKernels.h"
#include "state/CommonPart.h"

#include <algorithm>
#include <cstring>
#include <optional>

namespace fcdp {

namespace {

constexpr const char *kGather = "gather of the parameters";

/// Returns whether a program may name states of the role: values, masters, and
/// what optimizers keep for parameters.
bool isNamed(plan::StateRole role) {
  return role == plan::StateRole::shard || role == plan::StateRole::master ||
         plan::isOptimizerState(role);
}

/// A state of a parameter: its bucket's memory, and its own shape.
struct Region {
  const plan::State *region;
  Shape shape;
};

/// Returns the region, or none if the parameter has no such state.
std::optional<Region> findRegion(const StepPlan &plan,
                                 const plan::ParameterT &parameter,
                                 plan::StateRole role) {
  const plan::BucketT &bucket = *plan.buckets[parameter.bucket];
  const plan::State *region = findState(bucket, role);
  std::optional<Shape> shape =
      stateShape(role, parameter.shape, bucket.maxSide);
  if (!region || !shape)
    return std::nullopt;
  return Region{region, *shape};
}

/// The part of a parameter in one shard of its bucket, in bytes.
struct Piece {
  size_t inParameter, inShard, bytes;
};

Piece pieceOf(const StepPlan &plan, const NamedState &state, uint32_t part) {
  ShardRange range = stateRangeOf(plan, *state.parameter, part, state.role);
  size_t width = byteSize(state.dtype);
  return {size_t(range.inParameter) * width, size_t(range.inShard) * width,
          size_t(range.elements) * width};
}

} // namespace

const char *roleName(plan::StateRole role) {
  return role == plan::StateRole::shard ? "value"
                                        : plan::EnumNameStateRole(role);
}

plan::StateRole stateRoleOf(const std::string &text) {
  for (plan::StateRole role : plan::EnumValuesStateRole())
    if (isNamed(role) && text == roleName(role))
      return role;
  throw SessionError(SessionErrorCode::Misuse,
                     "there is no role '" + text + "' of a state");
}

std::vector<StateInfo> listStates(const StepPlan &plan) {
  std::vector<StateInfo> states;
  for (const auto &parameter : plan.parameters)
    for (plan::StateRole role : plan::EnumValuesStateRole()) {
      if (!isNamed(role))
        continue;
      if (auto found = findRegion(plan, *parameter, role))
        states.push_back({parameter->names, role,
                          toDType(found->region->dtype()), found->shape});
    }
  for (size_t i : plan.stateBuffers()) {
    const plan::BufferT &buffer = *plan.buffers[i];
    states.push_back({{buffer.name},
                      plan::StateRole::shard,
                      toDType(buffer.dtype),
                      buffer.shape,
                      buffer.persistent});
  }
  return states;
}

NamedState findState(const StepPlan &plan, const std::string &name,
                     plan::StateRole role) {
  for (const auto &parameter : plan.parameters) {
    const std::vector<std::string> &names = parameter->names;
    if (std::find(names.begin(), names.end(), name) == names.end())
      continue;
    std::optional<Region> found = findRegion(plan, *parameter, role);
    if (!found)
      throw SessionError(SessionErrorCode::Misuse,
                         "parameter '" + name + "' has no " + roleName(role) +
                             " in this step");
    return {parameter.get(),       0,
            &found->region->buf(), toDType(found->region->dtype()),
            found->shape,          found->region->role()};
  }
  for (size_t i : plan.stateBuffers())
    if (plan.buffers[i]->name == name && role == plan::StateRole::shard)
      return {nullptr, i, nullptr, toDType(plan.buffers[i]->dtype),
              plan.buffers[i]->shape};
  throw SessionError(SessionErrorCode::Misuse,
                     "the step has no state '" + name + "'");
}

void scatterState(const StepPlan &plan, Place place, Step &step,
                  const NamedState &state, const std::byte *value) {
  if (!state.parameter) {
    std::span<std::byte> own = step.buffer(state.buffer);
    std::copy(value, value + own.size(), own.begin());
    return;
  }
  const plan::BucketT &bucket = *plan.buckets[state.parameter->bucket];
  Piece piece = pieceOf(plan, state, partOf(bucket.sharding, plan.mesh, place));
  if (piece.bytes == 0)
    return;
  std::byte *own = step.region(*state.region).data() + piece.inShard;
  std::memcpy(own, value + piece.inParameter, piece.bytes);
  updateMaster(plan, place, step, state);
}

void updateMaster(const StepPlan &plan, Place place, Step &step,
                  const NamedState &state) {
  const plan::BucketT &bucket = *plan.buckets[state.parameter->bucket];
  const plan::State *shard = findState(bucket, plan::StateRole::shard);
  const plan::State *master = findState(bucket, plan::StateRole::master);
  if (!master)
    return;
  const plan::State *other = state.region == &shard->buf()    ? master
                             : state.region == &master->buf() ? shard
                                                              : nullptr;
  if (!other)
    return;
  ShardRange range = rangeOf(*state.parameter, bucket,
                             partOf(bucket.sharding, plan.mesh, place));
  auto first = size_t(range.inShard);
  DType type = toDType(other->dtype());
  convertElements(
      step.region(other->buf()).data() + first * byteSize(type), type,
      step.region(*state.region).data() + first * byteSize(state.dtype),
      state.dtype, size_t(range.elements));
}

void gatherState(const StepPlan &plan, Job &job, Step &step,
                 const NamedState &state, std::byte *out) {
  if (!state.parameter) {
    std::span<std::byte> own = step.buffer(state.buffer);
    if (job.rank() == 0)
      std::copy(own.begin(), own.end(), out);
    return;
  }
  const plan::BucketT &bucket = *plan.buckets[state.parameter->bucket];
  const CommonPart common(plan, job, step, bucket, state.role, *state.region);
  std::span<const std::byte> own = common.bytes();
  std::vector<Send> sends;
  std::vector<Recv> recvs;
  std::vector<uint32_t> owners = ownersOf(bucket, plan.mesh);
  for (uint32_t part = 0; part < owners.size(); ++part) {
    Piece piece = pieceOf(plan, state, part);
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

std::vector<std::byte> gatherShards(const StepPlan &plan, Job &job, Step &step,
                                    size_t bucket) {
  const plan::BucketT &of = *plan.buckets[bucket];
  const CommonPart common(plan, job, step, of, plan::StateRole::shard,
                          findState(of, plan::StateRole::shard)->buf());
  std::span<const std::byte> own = common.bytes();
  Transport &control = job.control();
  std::vector<uint32_t> owners = ownersOf(of, plan.mesh);
  if (job.rank() != 0) {
    std::vector<Send> sends;
    if (std::find(owners.begin(), owners.end(), job.rank()) != owners.end())
      sends.push_back({0, own.data(), own.size()});
    control.exchange(sends, {}, kGather);
    return {};
  }
  // Rank 0 owns part 0 with every sharding.
  std::vector<std::byte> all(own.size() * owners.size());
  std::copy(own.begin(), own.end(), all.begin());
  std::vector<Recv> recvs;
  for (size_t part = 1; part < owners.size(); ++part)
    recvs.push_back({owners[part], all.data() + part * own.size(), own.size()});
  control.exchange({}, recvs, kGather);
  return all;
}

} // namespace fcdp
