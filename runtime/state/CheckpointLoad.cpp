// SPDX-License-Identifier: Apache-2.0
#include "state/CheckpointLoad.h"

#include "checkpoint/CheckpointLayout.h"
#include "checkpoint/PackedWeights.h"
#include "checkpoint/Shards.h"
#include "core/Pieces.h"
#include "core/SumKernels.h"
#include "state/NodeSums.h"

#include <algorithm>
#include <set>
#include <stdexcept>

namespace fcdp {

namespace {

std::string describe(const std::string &role, const std::string &name) {
  return role == kValueRole ? name : role + " of " + name;
}

/// Returns, for example, "a, b, c and 7 more".
std::string listOf(const std::vector<std::string> &names) {
  constexpr size_t most = 10;
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), most); ++i)
    text += (i ? ", " : "") + names[i];
  if (names.size() > most)
    text += " and " + std::to_string(names.size() - most) + " more";
  return text;
}

/// Finds the step's states in a checkpoint, and lists those that do not fit.
/// Used by one thread.
class StateMatch {
public:
  explicit StateMatch(const CheckpointReader &reader) : reader(reader) {}

  /// Returns the checkpoint's state. Lists the state and returns null if it is
  /// missing or has another type or shape.
  const CheckpointState *require(const std::string &role,
                                 const std::vector<std::string> &names,
                                 DType dtype, const Shape &shape);
  /// Does the same for a state that need not be in the checkpoint.
  const CheckpointState *allow(const std::string &role,
                               const std::vector<std::string> &names,
                               DType dtype, const Shape &shape);
  /// Returns the state of a parameter's value, or null, and lists it, if it is
  /// packed in another way.
  const CheckpointState *requirePacked(const CheckpointState *state,
                                       const plan::ParameterT &parameter);
  /// Returns whether there is such a state.
  bool has(const std::string &role,
           const std::vector<std::string> &names) const {
    return reader.find(role, names);
  }
  /// Allows the checkpoint to have a state that the step lacks.
  void ignore(const std::string &role, const std::vector<std::string> &names) {
    used.insert(reader.find(role, names));
  }
  bool isUsed(const CheckpointState &state) const {
    return used.count(&state) != 0;
  }
  /// Returns the number of updates, which must be equal for all members of a
  /// bucket.
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

const CheckpointState *
StateMatch::requirePacked(const CheckpointState *state,
                          const plan::ParameterT &parameter) {
  const std::optional<std::string> packed = describePacked(parameter);
  if (!state || state->packed == packed)
    return state;
  differing.push_back(describe(state->role, parameter.names[0]) +
                      " (expected " + packed.value_or("values") + ", got " +
                      state->packed.value_or("values") + ")");
  return nullptr;
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
    // Buffers that are not part of the model's state belong to the step.
    if (!used.count(&state) && state.role != kRandomRole &&
        !isNodeSum(state.role) &&
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

/// The bytes that are read at once of a state that is converted or in a file.
constexpr int64_t kPieceBytes = 1 << 20;

/// Loads one checkpoint. Used by one thread.
class Loader {
public:
  Loader(const StepPlan &plan, Place place, CheckpointReader &reader,
         Step &step)
      : plan(plan), place(place), rank(worldRank(plan.mesh, place)),
        reader(reader), step(step), match(reader) {}

  void planReads();
  void read(uint64_t seed);
  const StateChanges &stateChanges() const { return changes; }

private:
  /// A state of a parameter that is summed over the saved nodes.
  struct NodeSumRead {
    const CheckpointState *state;
    const plan::ParameterT *parameter;
    plan::Buf region;
  };

  /// A range of a state that goes to this rank's memory, in its type there.
  struct Read {
    const CheckpointState *state;
    int64_t first, count;
    DType dtype;
    std::optional<plan::Buf> region;
    uint64_t byteOffset;
    size_t buffer;
  };

  void planBucket(size_t bucket,
                  const std::vector<const plan::ParameterT *> &members);
  void planNodeSum(const plan::State &region, const plan::ParameterT &member);
  void planBuffer(size_t buffer);
  /// Returns whether a parameter starts as the outer one. This is so if the
  /// checkpoint's nodes have trained by themselves, and the step's nodes are
  /// not the same.
  bool startsAtOuter(const plan::ParameterT &member) const;
  const CheckpointState *findStart(const plan::State &region,
                                   const plan::ParameterT &member);
  void compareOuter(const plan::BucketT &bucket,
                    const plan::ParameterT &member);
  uint32_t ownerOf(const CheckpointState &state) const;
  const CheckpointState *requireMember(const plan::BucketT &bucket,
                                       const plan::State &region,
                                       const plan::ParameterT &member);
  void compareMasters(const plan::BucketT &bucket,
                      const plan::ParameterT &member);
  void clear(const plan::Buf &region);
  template <typename Take>
  void readPieces(const Read &read, Take take);
  void readToFile(const Read &read);
  void readRange(const Read &read);
  void readNodeSum(const NodeSumRead &read);
  void readRandom(uint64_t seed);

  const StepPlan &plan;
  const Place place;
  const uint32_t rank;
  CheckpointReader &reader;
  Step &step;
  StateMatch match;
  std::vector<Read> reads;
  std::vector<NodeSumRead> nodeSumReads;
  std::vector<int64_t> updates; ///< by bucket
  bool hasOuter = false;
  StateChanges changes;
};

/// Returns the saved state for a region of a member. If only the checkpoint or
/// only the step has a master of the parameter, the types of the optimizer's
/// states differ, and the parameter's value is used for a master that was not
/// saved.
const CheckpointState *Loader::requireMember(const plan::BucketT &bucket,
                                             const plan::State &region,
                                             const plan::ParameterT &member) {
  std::string role = checkpointRole(region.role());
  DType storage = toDType(bucket.storage);
  if (region.role() == plan::StateRole::shard && !startsAtOuter(member))
    return match.requirePacked(
        match.require(role, member.names, storage, member.shape), member);
  if (const CheckpointState *outer = findStart(region, member))
    return outer;
  bool hasMaster = match.has(kMasterRole, member.names);
  if (region.role() == plan::StateRole::master && !hasMaster)
    return match.require(kValueRole, member.names, storage, member.shape);
  DType dtype = toDType(region.dtype());
  StateType type = rulesOf(region.role()).type;
  bool isOwn = type == StateType::f32 || type == StateType::u8;
  return match.require(
      role, member.names,
      isOwn       ? dtype
      : hasMaster ? DType::F32
                  : storage,
      *stateShape(region.role(), member.shape, bucket.maxSide));
}

bool Loader::startsAtOuter(const plan::ParameterT &member) const {
  bool keepsNodes = plan.outer && reader.index().nodes == plan.mesh.nodes;
  return match.has(checkpointRole(plan::StateRole::outer), member.names) &&
         !keepsNodes;
}

/// Returns the outer parameters if `region` starts as them, or null.
const CheckpointState *Loader::findStart(const plan::State &region,
                                         const plan::ParameterT &member) {
  bool isValue = region.role() == plan::StateRole::shard ||
                 region.role() == plan::StateRole::master;
  if (!isValue || !startsAtOuter(member))
    return nullptr;
  match.ignore(checkpointRole(region.role()), member.names);
  changes.outer.areJoined = true;
  return match.require(checkpointRole(plan::StateRole::outer), member.names,
                       DType::F32, member.shape);
}

/// Records the states of outer steps that only the checkpoint or only the step
/// has of a parameter.
void Loader::compareOuter(const plan::BucketT &bucket,
                          const plan::ParameterT &member) {
  auto compare = [&](plan::StateRole role) {
    const std::string name = checkpointRole(role);
    bool isWanted = findState(bucket, role);
    bool isSaved = match.has(name, member.names);
    if (isSaved && !isWanted)
      match.ignore(name, member.names);
    changes.outer.dropped |= isSaved && !isWanted;
    changes.outer.started |= isWanted && !isSaved;
  };
  compare(plan::StateRole::outer);
  compare(plan::StateRole::outer_momentum);
}

/// Counts the parameters with a master in only the checkpoint or only the step.
void Loader::compareMasters(const plan::BucketT &bucket,
                            const plan::ParameterT &member) {
  bool isWanted = findState(bucket, plan::StateRole::master);
  bool isSaved = match.has(kMasterRole, member.names);
  if (!bucket.trainable || isWanted == isSaved)
    return;
  if (isSaved)
    match.ignore(kMasterRole, member.names);
  ++(isSaved ? changes.masters.dropped : changes.masters.started);
}

void Loader::planNodeSum(const plan::State &region,
                         const plan::ParameterT &member) {
  const char *role = checkpointRole(region.role());
  if (!match.has(role, member.names))
    ++changes.nodeSums.started;
  else if (const CheckpointState *state =
               match.allow(role, member.names, DType::F32, member.shape))
    nodeSumReads.push_back({state, &member, region.buf()});
}

void Loader::planBucket(size_t number,
                        const std::vector<const plan::ParameterT *> &members) {
  const plan::BucketT &bucket = *plan.buckets[number];
  uint32_t part = partOf(bucket.sharding, plan.mesh, place);
  for (const plan::ParameterT *member : members) {
    compareMasters(bucket, *member);
    compareOuter(bucket, *member);
  }
  for (const plan::State &region : bucket.states) {
    if (!checkpointRole(region.role()))
      continue;
    DType dtype = toDType(region.dtype());
    for (const plan::ParameterT *member : members) {
      if (!stateShape(region.role(), member->shape, bucket.maxSide))
        continue;
      if (isNodeSum(region.role())) {
        planNodeSum(region, *member);
        continue;
      }
      bool isOuter = isCommonToNodes(region.role());
      if (isOuter && !match.has(checkpointRole(region.role()), member->names))
        continue; // it starts as at the beginning of a job
      hasOuter |= isOuter;
      const CheckpointState *state = requireMember(bucket, region, *member);
      ShardRange range = stateRangeOf(plan, *member, part, region.role());
      if (state && range.elements != 0)
        reads.push_back({state, range.inParameter, range.elements, dtype,
                         region.buf(),
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
    reads.push_back(
        {state, 0, numElements(buffer.shape), dtype, {}, 0, number});
}

void Loader::planReads() {
  auto members = membersOf(plan);
  for (size_t bucket = 0; bucket < members.size(); ++bucket)
    planBucket(bucket, members[bucket]);
  for (size_t buffer : plan.stateBuffers())
    planBuffer(buffer);
  for (const CheckpointState &state : reader.index().states)
    changes.nodeSums.dropped += isNodeSum(state.role) && !match.isUsed(state);
  match.finish();
}

void Loader::read(uint64_t seed) {
  for (const auto &bucket : plan.buckets)
    for (const plan::State &region : bucket->states)
      if (checkpointRole(region.role()))
        clear(region.buf());
  for (const Read &read : reads)
    readRange(read);
  for (const NodeSumRead &read : nodeSumReads)
    readNodeSum(read);
  for (size_t bucket = 0; bucket < updates.size(); ++bucket)
    step.setUpdateCount(bucket, updates[bucket]);
  if (hasOuter)
    step.keepStates(plan::StateRole::outer);
  readRandom(seed);
}

/// Sets a state to zeros. One in a file is never in memory as a whole.
void Loader::clear(const plan::Buf &region) {
  if (region.arena() != plan::Arena::file) {
    std::span<std::byte> memory = step.region(region);
    std::fill(memory.begin(), memory.end(), std::byte(0));
    return;
  }
  const std::vector<std::byte> zeros(
      std::min<uint64_t>(kPieceBytes, region.bytes()));
  for (uint64_t done = 0; done < region.bytes(); done += zeros.size())
    step.writeRegion(region, done,
                     std::span(zeros).first(std::min<uint64_t>(
                         zeros.size(), region.bytes() - done)));
}

/// Reads a range by pieces, in the checkpoint's type, and calls
/// `take(begin, count, data)` with each.
template <typename Take>
void Loader::readPieces(const Read &read, Take take) {
  const int64_t most = pieceElements(kPieceBytes);
  std::vector<std::byte> saved(std::min(most, read.count) *
                               byteSize(read.state->dtype));
  forEachPiece(read.count, most, [&](int64_t begin, int64_t count) {
    reader.read(*read.state, ownerOf(*read.state), read.first + begin, count,
                saved.data());
    take(begin, size_t(count), saved.data());
  });
}

/// Reads a range of a state in a file.
void Loader::readToFile(const Read &read) {
  const size_t width = byteSize(read.dtype);
  const DType from = read.state->dtype;
  std::vector<std::byte> converted;
  readPieces(read, [&](int64_t begin, size_t count, const std::byte *saved) {
    if (from != read.dtype) {
      converted.resize(count * width);
      convertElements(converted.data(), read.dtype, saved, from, count);
      saved = converted.data();
    }
    step.writeRegion(*read.region, read.byteOffset + uint64_t(begin) * width,
                     {saved, count * width});
  });
}

void Loader::readRange(const Read &read) {
  if (read.region && read.region->arena() == plan::Arena::file)
    return readToFile(read);
  std::byte *target = read.region
                          ? step.region(*read.region).data() + read.byteOffset
                          : step.buffer(read.buffer).data();
  DType from = read.state->dtype;
  if (from == read.dtype) {
    reader.read(*read.state, ownerOf(*read.state), read.first, read.count,
                target);
    return;
  }
  readPieces(read, [&](int64_t begin, size_t count, const std::byte *saved) {
    convertElements(target + size_t(begin) * byteSize(read.dtype), read.dtype,
                    saved, from, count);
  });
}

void Loader::readNodeSum(const NodeSumRead &read) {
  std::span<std::byte> memory = step.region(read.region);
  NodeSumSlice slice{plan,
                     place,
                     {reinterpret_cast<float *>(memory.data()),
                      memory.size() / sizeof(float)}};
  changes.nodeSums.areMoved |=
      addNodeSums(reader, *read.state, *read.parameter, slice);
}

/// Returns the rank or node whose state this rank gets, if ranks or nodes have
/// their own. If there are more than were saved, some get the same state.
uint32_t Loader::ownerOf(const CheckpointState &state) const {
  if (!state.belongsToNodes())
    return rank % reader.index().worldSize;
  // Ranks that own a parameter together get the state of one node.
  return plan.outer ? place.node % reader.index().nodes : 0;
}

void Loader::readRandom(uint64_t seed) {
  const CheckpointState *random = reader.find(kRandomRole, {kRandomName});
  size_t bytes = step.randomState().size();
  bool isThere =
      random && random->belongsToRanks() && rank < reader.index().worldSize &&
      random->dtype == DType::U8 && random->shape == Shape{int64_t(bytes)};
  if (!isThere) {
    // The numbers must differ from those of the first steps.
    constexpr uint64_t odd = 0x9E3779B97F4A7C15;
    step.seedRandom(seed + rank + odd * uint64_t(reader.index().step));
    return;
  }
  std::vector<std::byte> state(bytes);
  reader.read(*random, rank, 0, int64_t(bytes), state.data());
  step.setRandomState(state);
}

} // namespace

StateChanges loadCheckpoint(const StepPlan &plan, Place place, uint64_t seed,
                            CheckpointReader &reader, Step &step) {
  Loader loader(plan, place, reader, step);
  loader.planReads();
  loader.read(seed);
  return loader.stateChanges();
}

void agreeOnChanges(const StepPlan &plan, StateChanges &changes,
                    const std::function<bool(bool own)> &isAnywhere) {
  bool hasNodeSums = std::ranges::any_of(plan.buckets, [](const auto &bucket) {
    return std::ranges::any_of(bucket->states, [](const plan::State &region) {
      return isNodeSum(region.role());
    });
  });
  if (hasNodeSums)
    changes.nodeSums.areMoved = isAnywhere(changes.nodeSums.areMoved);
}

} // namespace fcdp
