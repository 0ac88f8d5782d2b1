// SPDX-License-Identifier: Apache-2.0
//
// Explores all legal runs: from the state after a function it tries every
// function that may follow. Two states are equal if no later function can tell
// them apart. So the search ends, although runs may have any length.

#include "fcdp/Verification/PlanProofs.h"

#include "PlanRun.h"
#include "fcdp/Analysis/Traffic.h"
#include "llvm/ADT/DenseSet.h"

#include <set>

using namespace mlir;
using namespace fcdp;

/// The limit of states, for each two variants that follow each other in steps,
/// or fragments with their micro-batches. It is more than any known plan needs.
static constexpr size_t kMaxStates = 256;

//===----------------------------------------------------------------------===//
// Comparison of states
//===----------------------------------------------------------------------===//

namespace {
/// A normal form of a state, for comparison. It replaces the index of an
/// operation by the set of streams and events that know the operation to be
/// done.
class Signature {
public:
  Signature(const PlanModel &plan, PlanRun &run, const RunState &state,
            FamilyMember which);
  std::vector<int32_t> take() { return std::move(numbers); }

private:
  void findEvents(FamilyMember which);
  void addThresholds();
  int32_t classify(size_t stream, OpIndex index) const;
  void addClock(const Clock &clock);
  void addContent(int32_t id);
  void addArena(Arena arena);

  const PlanModel &plan;
  PlanRun &run;
  const RunState &state;
  /// The events that a later function may wait for before it records them.
  std::vector<std::pair<int64_t, Clock>> events;
  /// By stream, all operation indices that some stream or event knows to be
  /// done, in ascending order.
  std::array<std::vector<OpIndex>, kNumStreams> thresholds;
  std::vector<int32_t> numbers;
};
} // namespace

Signature::Signature(const PlanModel &plan, PlanRun &run, const RunState &state,
                     FamilyMember which)
    : plan(plan), run(run), state(state) {
  numbers.push_back(static_cast<int32_t>(which.role));
  numbers.push_back(static_cast<int32_t>(state.step));
  findEvents(which);
  addThresholds();
  for (const Clock &known : state.clocks.getKnown())
    addClock(known);
  for (const auto &[event, clock] : events) {
    numbers.push_back(event);
    addClock(clock);
  }
  for (size_t i = 0; i < kNumArenas; ++i)
    addArena(static_cast<Arena>(i));
  for (int32_t content : state.emptyContents)
    addContent(content);
}

void Signature::findEvents(FamilyMember which) {
  llvm::SmallDenseSet<int64_t> liveIns;
  for (const auto &[next, function] : plan.functions)
    if (mayFollow(which, next))
      liveIns.insert(function.liveInEvents.begin(),
                     function.liveInEvents.end());
  for (const auto &[event, clock] : state.clocks.getEvents())
    if (liveIns.contains(event))
      events.push_back({event, clock});
}

void Signature::addThresholds() {
  for (size_t stream = 0; stream < kNumStreams; ++stream) {
    auto &known = thresholds[stream];
    for (const Clock &clock : state.clocks.getKnown())
      known.push_back(clock[stream]);
    for (const auto &[event, clock] : events)
      known.push_back(clock[stream]);
    llvm::sort(known);
    known.erase(llvm::unique(known), known.end());
  }
}

/// Returns the number of known indices below `index`. 0 means that all streams
/// and events know the operation to be done.
int32_t Signature::classify(size_t stream, OpIndex index) const {
  return llvm::lower_bound(thresholds[stream], index) -
         thresholds[stream].begin();
}

void Signature::addClock(const Clock &clock) {
  for (size_t stream = 0; stream < kNumStreams; ++stream)
    numbers.push_back(classify(stream, clock[stream]));
}

void Signature::addContent(int32_t id) {
  const Content &content = run.getContent(id);
  numbers.push_back(static_cast<int32_t>(content.kind));
  if (content.kind == ContentKind::nothing)
    return;
  bool isSum = content.kind == ContentKind::gradient;
  bool isStale = content.kind == ContentKind::weights &&
                 content.version != state.versions[content.bucket];
  int32_t age = isSum ? std::min(state.batch - content.batch, 2) : 0;
  bool isOfStep = isSum && content.batch >= state.firstBatch;
  numbers.push_back(content.bucket);
  // The type of a state determines the axes over which its gradients have been
  // gathered, so `gathered` never differs alone. The proof does not rely on
  // types.
  numbers.push_back(content.axes | isStale << 2 | content.isPrefix << 3 |
                    (content.takenBy != 0) << 4 | isOfStep << 5 | age << 6 |
                    content.gathered << 8);
}

void Signature::addArena(Arena arena) {
  // The bytes of a state without valid content cannot be read, so they are
  // treated like those of values.
  std::vector<std::pair<int64_t, int64_t>> states;
  for (auto [index, model] : llvm::enumerate(plan.states))
    if (StateOp(model.op).getArena() == arena && run.findContent(index))
      states.push_back({model.extent.begin, model.extent.end});
  llvm::sort(states);
  size_t at = 0;
  std::vector<int32_t> last;
  for (const auto &[begin, segment] : state.arenas[arena].getSegments()) {
    while (at < states.size() && states[at].second <= begin)
      ++at;
    // Memory of values has no content between functions; only states have.
    bool isState = at < states.size() && states[at].first < segment.end;
    size_t start = numbers.size();
    numbers.push_back(segment.shape);
    for (const Marks &marks : segment.planes) {
      addClock(marks.written);
      addClock(marks.read);
      addContent(isState ? marks.content : 0);
    }
    // If all streams know of all accesses, it does not matter how the values
    // were nested.
    bool isDone = llvm::all_of(llvm::drop_begin(numbers, start + 1),
                               [](int32_t number) { return number == 0; });
    if (isDone && !isState)
      numbers[start] = 0;
    std::vector<int32_t> own(numbers.begin() + start, numbers.end());
    if (own == last) {
      numbers.resize(start);
      continue;
    }
    last = own;
    numbers.push_back(static_cast<int32_t>(begin >> 32));
    numbers.push_back(static_cast<int32_t>(begin));
  }
}

//===----------------------------------------------------------------------===//
// Checks that need no run
//===----------------------------------------------------------------------===//

static LogicalResult verifyStatesApart(const PlanModel &plan, Arena arena) {
  std::vector<const StateModel *> states;
  for (const StateModel &state : plan.states)
    if (StateOp(state.op).getArena() == arena && !state.extent.isEmpty())
      states.push_back(&state);
  llvm::sort(states, [](const StateModel *a, const StateModel *b) {
    return a->extent.begin < b->extent.begin;
  });
  auto isGradient = [](const StateModel &state) {
    return StateOp(state.op).getRole() == StateRole::grad;
  };
  const StateModel *widest = states.empty() ? nullptr : states.front();
  for (size_t i = 1; i < states.size(); ++i) {
    const StateModel &before = *widest, &state = *states[i];
    if (state.extent.end > before.extent.end)
      widest = &state;
    // Gradients may share memory. Only one of them can be read, because what is
    // there belongs to one bucket.
    if (state.extent.begin >= before.extent.end ||
        (isGradient(before) && isGradient(state)))
      continue;
    InFlightDiagnostic diag = StateOp(state.op).emitOpError("of ")
                              << plan.describe(state.bucket)
                              << ": its buffer at " << state.extent.begin
                              << " overlaps another state";
    diag.attachNote(StateOp(before.op).getLoc())
        << "this one, of " << plan.describe(before.bucket) << ", ends at "
        << before.extent.end;
    return diag;
  }
  return success();
}

/// Checks that each rank of a node has a part of the host arena for itself, and
/// that all parts have the layout of local rank 0's.
static LogicalResult verifyPartsApart(const PlanModel &plan) {
  auto module = MeshOp(plan.mesh)->getParentOfType<ModuleOp>();
  const int64_t window = countFileWindow(module);
  if (MeshOp(plan.mesh).getLocal() == 1 && window == 0)
    return success();
  std::vector<const StateModel *> states;
  int64_t part = 0;
  for (const StateModel &state : plan.states)
    if (StateOp(state.op).getArena() == Arena::host) {
      states.push_back(&state);
      part = std::max(part, state.extent.end);
    }
  // Values that functions store are in the same parts.
  std::optional<int64_t> ofStates;
  if (!states.empty())
    ofStates = StateOp(states.front()->op).getBuffer()->getLocalStride();
  SmallVector<std::pair<Operation *, BufferAttr>> stores;
  auto add = [&](Operation *store, BufferAttr buffer) {
    if (!buffer)
      return;
    stores.emplace_back(store, buffer);
    part = std::max(part, buffer.getOffset() + buffer.getBytes());
    ofStates = ofStates.value_or(buffer.getLocalStride());
  };
  for (const auto &[member, function] : plan.functions) {
    for (auto store : func::FuncOp(function.op).getOps<StoreValueOp>())
      add(store, store.getPlaceAttr());
    for (auto store : func::FuncOp(function.op).getOps<StoreGradientOp>())
      add(store, store.getPlaceAttr());
  }
  // Copies to files and from files pass through the end of each part, in the
  // order of their stream.
  part += window;
  for (auto [store, buffer] : stores)
    if (int64_t stride = buffer.getLocalStride();
        stride < part || stride != ofStates)
      return store->emitOpError("expected a local_stride of at least ")
             << part << " bytes, the same as of all places on the host, got "
             << stride;
  auto strideOf = [](const StateModel &state) {
    return StateOp(state.op).getBuffer()->getLocalStride();
  };
  for (const StateModel *state : states) {
    auto fail = [&] {
      return StateOp(state->op).emitOpError("of ")
             << plan.describe(state->bucket) << ": ";
    };
    int64_t stride = strideOf(*state), first = strideOf(*states.front());
    if (stride < part)
      return fail() << "the parts of a node's ranks overlap: expected a "
                       "local_stride of at least "
                    << part << " bytes, got " << stride;
    if (stride != first)
      return fail() << "expected the same local_stride as other states on the "
                       "host, "
                    << first << ", got " << stride;
  }
  return success();
}

/// Checks that each parameter is a member of exactly one bucket, so that it is
/// reduced and updated with it.
static LogicalResult verifyMembers(ModuleOp module) {
  llvm::DenseMap<StringAttr, BucketOp> bucketOf;
  for (auto bucket : module.getOps<BucketOp>())
    for (auto member : bucket.getMembers().getAsRange<MemberAttr>()) {
      auto [it, isNew] =
          bucketOf.try_emplace(member.getParameter().getAttr(), bucket);
      if (isNew)
        continue;
      InFlightDiagnostic diag = bucket.emitOpError("its member ")
                                << member.getParameter()
                                << " is in another bucket, too";
      diag.attachNote(it->second.getLoc()) << "this one";
      return diag;
    }
  for (auto parameter : module.getOps<ParameterOp>())
    if (!bucketOf.contains(parameter.getSymNameAttr()))
      return parameter.emitOpError("expected to be in a bucket");
  return success();
}

//===----------------------------------------------------------------------===//
// Runs
//===----------------------------------------------------------------------===//

static LogicalResult tryRuns(ModuleOp module, const PlanModel &plan) {
  PlanRun run(plan);
  std::set<std::vector<int32_t>> seen;
  std::vector<std::pair<FamilyMember, RunState>> open;
  auto visit = [&](FamilyMember which, RunState state) -> LogicalResult {
    if (failed(run.run(plan.functions.at(which), state)))
      return failure();
    if (seen.insert(Signature(plan, run, state, which).take()).second)
      open.push_back({which, std::move(state)});
    return success();
  };
  if (failed(visit({Role::init}, run.begin())))
    return failure();
  const size_t kinds = getFamily(module).countNumbers();
  const size_t most = kMaxStates * kinds * kinds;
  while (!open.empty()) {
    auto [which, state] = std::move(open.back());
    open.pop_back();
    if (seen.size() > most)
      return module.emitError("the orders of accesses at the ends of functions "
                              "do not repeat after ")
             << most << " functions";
    for (Role role : getSuccessors(which.role))
      for (const auto &[next, function] : plan.functions)
        if (next.role == role && mayFollow(which, next) &&
            failed(visit(next, state)))
          return failure();
  }
  return success();
}

LogicalResult fcdp::verifyRuns(ModuleOp module, ArrayRef<FreeRange> free) {
  FailureOr<PlanModel> plan = PlanModel::build(module, free);
  if (failed(plan) || failed(verifyMembers(module)))
    return failure();
  for (size_t i = 0; i < kNumArenas; ++i)
    if (failed(verifyStatesApart(*plan, static_cast<Arena>(i))))
      return failure();
  if (failed(verifyPartsApart(*plan)))
    return failure();
  return tryRuns(module, *plan);
}
