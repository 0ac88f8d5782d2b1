// SPDX-License-Identifier: Apache-2.0
#include "session/CheckpointLoad.h"

#include "checkpoint/CheckpointLayout.h"
#include "checkpoint/Shards.h"

#include <algorithm>
#include <set>
#include <stdexcept>

namespace fcdp {

namespace {

std::string describe(const std::string &role, const std::string &name) {
  return role == kValueRole ? name : role + " of " + name;
}

/// "a, b, c and 7 more"
std::string listOf(const std::vector<std::string> &names) {
  constexpr size_t most = 10;
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), most); ++i)
    text += (i ? ", " : "") + names[i];
  if (names.size() > most)
    text += " and " + std::to_string(names.size() - most) + " more";
  return text;
}

/// Finds the step's states in a checkpoint, and lists what does not fit. Used
/// by one thread.
class StateMatch {
public:
  explicit StateMatch(const CheckpointReader &reader) : reader(reader) {}

  /// Returns the checkpoint's state; null, and lists it, if there is none, or
  /// unless its type and shape are these.
  const CheckpointState *require(const std::string &role,
                                 const std::vector<std::string> &names,
                                 DType dtype, const Shape &shape);
  /// The state need not be in the checkpoint.
  const CheckpointState *allow(const std::string &role,
                               const std::vector<std::string> &names,
                               DType dtype, const Shape &shape);
  /// The updates that all members of a bucket have had.
  int64_t requireUpdates(const plan::BucketT &bucket,
                         const std::vector<const plan::ParameterT *> &members);
  void finish() const;

private:
  const CheckpointReader &reader;
  std::set<const CheckpointState *> used;
  std::vector<std::string> missing, differing;
};

const CheckpointState *StateMatch::allow(const std::string &role,
                                         const std::vector<std::string> &names,
                                         DType dtype, const Shape &shape) {
  const CheckpointState *state = reader.find(role, names);
  if (!state)
    return nullptr;
  used.insert(state);
  if (state->dtype == dtype && state->shape == shape)
    return state;
  differing.push_back(describe(role, names[0]) + " (expected " + name(dtype) +
                      toString(shape) + ", got " + name(state->dtype) +
                      toString(state->shape) + ")");
  return nullptr;
}

const CheckpointState *
StateMatch::require(const std::string &role,
                    const std::vector<std::string> &names, DType dtype,
                    const Shape &shape) {
  if (!reader.find(role, names))
    missing.push_back(describe(role, names[0]));
  return allow(role, names, dtype, shape);
}

int64_t StateMatch::requireUpdates(
    const plan::BucketT &bucket,
    const std::vector<const plan::ParameterT *> &members) {
  std::optional<int64_t> updates;
  if (!bucket.trainable)
    return 0;
  for (const plan::ParameterT *member : members) {
    const CheckpointState *state = reader.find(kValueRole, member->names);
    int64_t own = state ? state->updates.value_or(0) : 0;
    if (state && updates.value_or(own) != own)
      differing.push_back(member->names[0] + " (expected " +
                          std::to_string(*updates) +
                          " updates, as its bucket '" + bucket.name +
                          "' has one count, got " + std::to_string(own) + ")");
    if (state)
      updates = own;
  }
  return updates.value_or(0);
}

void StateMatch::finish() const {
  std::vector<std::string> extra;
  for (const CheckpointState &state : reader.index().states)
    // Buffers that are no part of the model's state are the step's own.
    if (!used.count(&state) && state.role != kRandomRole &&
        !(state.role == kBufferRole && state.persistent == false))
      extra.push_back(describe(state.role, state.names[0]));
  std::string problems;
  auto add = [&](const std::string &what,
                 const std::vector<std::string> &names) {
    if (!names.empty())
      problems += (problems.empty() ? "" : "; ") + what + listOf(names);
  };
  add("it lacks ", missing);
  add("the step has no ", extra);
  add("these differ: ", differing);
  if (!problems.empty())
    throw std::runtime_error(reader.path() +
                             ": does not fit the step: " + problems);
}

/// Loads one checkpoint. Used by one thread.
class Loader {
public:
  Loader(const StepPlan &plan, Place place, CheckpointReader &reader,
         Step &step)
      : plan(plan), place(place), rank(worldRank(plan.mesh, place)),
        reader(reader), step(step), match(reader) {}

  void planReads();
  void read(uint64_t seed);

private:
  /// A range of a state that goes to this rank's memory.
  struct Read {
    const CheckpointState *state;
    int64_t first, count;
    std::optional<plan::Buf> region;
    uint64_t byteOffset;
    size_t buffer;
  };

  void planBucket(size_t bucket,
                  const std::vector<const plan::ParameterT *> &members);
  void planBuffer(size_t buffer);
  void readRandom(uint64_t seed);

  const StepPlan &plan;
  const Place place;
  const uint32_t rank;
  CheckpointReader &reader;
  Step &step;
  StateMatch match;
  std::vector<Read> reads;
  std::vector<int64_t> updates; ///< by bucket
};

void Loader::planBucket(size_t number,
                        const std::vector<const plan::ParameterT *> &members) {
  const plan::BucketT &bucket = *plan.buckets[number];
  uint32_t part = partOf(bucket.sharding, plan.mesh, place);
  for (const plan::State &region : bucket.states) {
    const char *role = checkpointRole(region.role());
    if (!role)
      continue;
    DType dtype = toDType(region.dtype());
    for (const plan::ParameterT *member : members) {
      const CheckpointState *state =
          match.require(role, member->names, dtype, member->shape);
      ShardRange range = rangeOf(*member, bucket, part);
      if (state && range.elements != 0)
        reads.push_back({state, range.inParameter, range.elements, region.buf(),
                         uint64_t(range.inShard) * byteSize(dtype), 0});
    }
  }
  updates.push_back(match.requireUpdates(bucket, members));
}

void Loader::planBuffer(size_t number) {
  const plan::BufferT &buffer = *plan.buffers[number];
  DType dtype = toDType(buffer.dtype);
  // The value of a buffer that never changes may be part of the step.
  bool isOwn = buffer.constantOffset && !buffer.mutable_;
  const CheckpointState *state =
      isOwn && !buffer.persistent
          ? nullptr
          : (isOwn
                 ? match.allow(kBufferRole, {buffer.name}, dtype, buffer.shape)
                 : match.require(kBufferRole, {buffer.name}, dtype,
                                 buffer.shape));
  if (state && numElements(buffer.shape) != 0)
    reads.push_back({state, 0, numElements(buffer.shape), {}, 0, number});
}

void Loader::planReads() {
  auto members = membersOf(plan);
  for (size_t bucket = 0; bucket < members.size(); ++bucket)
    planBucket(bucket, members[bucket]);
  for (size_t buffer = 0; buffer < plan.buffers.size(); ++buffer)
    planBuffer(buffer);
  match.finish();
}

void Loader::read(uint64_t seed) {
  for (const auto &bucket : plan.buckets)
    for (const plan::State &region : bucket->states)
      if (checkpointRole(region.role())) {
        std::span<std::byte> memory = step.region(region.buf());
        std::fill(memory.begin(), memory.end(), std::byte(0));
      }
  for (const Read &read : reads) {
    std::byte *target = read.region
                            ? step.region(*read.region).data() + read.byteOffset
                            : step.buffer(read.buffer).data();
    // On more ranks than saved, a rank has the buffers of another one.
    reader.read(*read.state, rank % reader.index().worldSize, read.first,
                read.count, target);
  }
  for (size_t bucket = 0; bucket < updates.size(); ++bucket)
    step.setUpdateCount(bucket, updates[bucket]);
  readRandom(seed);
}

void Loader::readRandom(uint64_t seed) {
  const CheckpointState *random = reader.find(kRandomRole, {kRandomName});
  size_t bytes = step.randomState().size();
  bool isThere =
      random && random->belongsToRanks() && rank < reader.index().worldSize &&
      random->dtype == DType::U8 && random->shape == Shape{int64_t(bytes)};
  if (!isThere) {
    // Other numbers than those of the first steps.
    constexpr uint64_t odd = 0x9E3779B97F4A7C15;
    step.seedRandom(seed + rank + odd * uint64_t(reader.index().step));
    return;
  }
  std::vector<std::byte> state(bytes);
  reader.read(*random, rank, 0, int64_t(bytes), state.data());
  step.setRandomState(state);
}

} // namespace

void loadCheckpoint(const StepPlan &plan, Place place, uint64_t seed,
                    CheckpointReader &reader, Step &step) {
  Loader loader(plan, place, reader, step);
  loader.planReads();
  loader.read(seed);
}

} // namespace fcdp
