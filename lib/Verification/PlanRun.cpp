// SPDX-License-Identifier: Apache-2.0
//
// Checks the order of accesses.

#include "PlanRun.h"

#include "dialects/Fcdp/OpList.h"
#include "fcdp/Analysis/FunctionBoundaries.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace fcdp;

/// Returns whether checkpoints save states of `role`.
static bool isSaved(StateRole role) {
  return role == StateRole::shard || isOptimizerState(role) ||
         isOuterState(role);
}

PlanRun::PlanRun(const PlanModel &plan) : plan(plan), issued(1), contents(1) {}

RunState PlanRun::begin() {
  RunState state;
  for (auto [arena, bytes] :
       llvm::zip_equal(state.arenas.values, plan.arenaBytes.values))
    arena = AccessMap(bytes);
  state.versions.assign(plan.buckets.size(), 0);
  state.updates.assign(plan.buckets.size(), 0);
  state.emptyContents.assign(plan.states.size(), 0);
  now = &state;
  for (size_t i = 0; i < plan.states.size(); ++i) {
    Content content;
    content.bucket = plan.states[i].bucket;
    StateRole role = StateOp(plan.states[i].op).getRole();
    if (!isSaved(role))
      continue;
    content.kind = getContentKind(role);
    if (role == StateRole::shard)
      content.axes = getOwnAxes(content.bucket);
    content.begin = plan.states[i].extent.begin;
    content.end = plan.states[i].extent.end;
    int32_t id = state.emptyContents[i] = addContent(content);
    getMap(plan.states[i])
        .write(plan.states[i].extent, /*stream=*/0, /*index=*/0, id);
  }
  return state;
}

int32_t PlanRun::addContent(Content content) {
  content.writer = current ? issued.size() - 1 : 0;
  contents.push_back(content);
  return contents.size() - 1;
}

InFlightDiagnostic PlanRun::emitError() {
  InFlightDiagnostic diag = current->op->emitOpError();
  std::string what = plan.describe(*function, *current);
  if (!what.empty())
    diag << "for " << what << " ";
  diag << "in @" << func::FuncOp(function->op).getSymName() << ": ";
  return diag;
}

void PlanRun::attachNote(InFlightDiagnostic &diag, OpIndex index,
                         const Twine &what) {
  const Issued &other = issued[index];
  if (!other.instruction)
    return;
  std::string target = plan.describe(*other.function, *other.instruction);
  diag.attachNote(other.instruction->op->getLoc())
      << what << ", on " << stringifyStream(other.instruction->stream)
      << " in @" << func::FuncOp(other.function->op).getSymName()
      << (target.empty() ? "" : " for ") << target;
}

void PlanRun::attachWriter(InFlightDiagnostic &diag, const Content &content,
                           const Twine &what) {
  if (content.writer)
    attachNote(diag, content.writer, what);
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

void PlanRun::enter(const FunctionModel &entered) {
  function = &entered;
  firstIndex = issued.size();
  contentOf.assign(entered.buffers.size(), 0);
  accesses.assign(entered.buffers.size(), Clock());
  released.assign(entered.buffers.size(), 0);
  inPlace.clear();
  madeAt.clear();
  storedAt.clear();
  storedAs.clear();
  updating.clear();
  storing.clear();
  loaded.clear();
  if (!isMicrobatch(entered.role))
    return;
  ++now->batch;
  if (isFirstOfStep(entered.role)) {
    now->firstBatch = now->batch;
    now->firstIndex = firstIndex;
  }
}

/// Checks that all values are released. After an update, an outer update or an
/// evaluation, also checks that all states that a checkpoint saves are present.
LogicalResult PlanRun::leave() {
  for (size_t i = 0; i < function->buffers.size(); ++i)
    if (!released[i])
      return function->buffers[i].op->emitOpError("in @")
             << func::FuncOp(function->op).getSymName()
             << ": expected one release of its result, got none";
  // A micro-batch of the step may have updated it.
  OpIndex begin = function->role == Role::update ? now->firstIndex : firstIndex;
  for (auto [bucket, updated] : llvm::zip(plan.buckets, now->updates))
    if (isUpdatedHere(bucket.op) && updated < begin)
      return BucketOp(bucket.op).emitOpError("expected one update of ")
             << describeBucket(bucket.op) << " in @"
             << func::FuncOp(function->op).getSymName() << ", got none";
  if (function->role != Role::update && !isSynchronized(function->role))
    return success();
  for (size_t i = 0; i < plan.states.size(); ++i) {
    StateRole role = StateOp(plan.states[i].op).getRole();
    if (!isSaved(role) || findContent(i))
      continue;
    InFlightDiagnostic diag = StateOp(plan.states[i].op).emitOpError("of ")
                              << plan.describe(plan.states[i].bucket)
                              << " is overwritten in a step";
    getMap(plan.states[i])
        .visitContents(plan.states[i].extent, [&](int32_t content) {
          if (isFor(i, contents[content]))
            return true;
          attachWriter(diag, contents[content], "overwritten here");
          return false;
        });
    return diag;
  }
  return success();
}

LogicalResult PlanRun::run(const FunctionModel &entered, RunState &state) {
  now = &state;
  if (isSynchronized(entered.role))
    now->clocks.synchronize();
  // This is what the runtime does.
  if (isFirstOfStep(entered.role)) {
    int64_t step = FamilyMember{entered.role, entered.number}.getStep();
    if (state.step >= 0 && state.step != step)
      now->clocks.waitFor(static_cast<size_t>(Stream::compute));
    state.step = step;
  }
  enter(entered);
  for (const PlanInstruction &instruction : entered.instructions)
    if (failed(issue(instruction)))
      return failure();
  current = nullptr;
  if (isSynchronized(entered.role))
    now->clocks.synchronize();
  return leave();
}

LogicalResult PlanRun::issue(const PlanInstruction &instruction) {
  current = &instruction;
  issued.push_back({function, &instruction});
  if (failed(writeFreeRanges(instruction)) || failed(issueOn(instruction)))
    return failure();
  now->clocks.issue(static_cast<size_t>(instruction.stream), issued.size() - 1);
  madeAt[instruction.op] = issued.size() - 1;
  return success();
}

/// Checks that operators may write to the free memory of this operation.
LogicalResult PlanRun::writeFreeRanges(const PlanInstruction &instruction) {
  for (const Extent &extent : instruction.freeRanges)
    if (failed(access(Arena::device, extent, Mode::write)))
      return failure();
  return success();
}

LogicalResult PlanRun::issueOn(const PlanInstruction &instruction) {
  auto prove = llvm::makeVisitor(
      [&](CollectiveOpInterface collective) {
        switch (collective.getKind()) {
        case CollectiveKind::allGather:
          return gather(instruction);
        case CollectiveKind::reduceScatter:
          return reduce(instruction);
        }
        llvm_unreachable("unknown kind");
      },
      [&](CastShardOp) { return cast(instruction); },
      [&](PackOp) { return pack(instruction); },
      [&](AccumulateOp) { return accumulate(instruction); },
      [&](AddOp) { return add(instruction); },
      [&](CacheStoreOp) { return store(instruction); },
      [&](CacheLoadOp) { return load(instruction); },
      [&](StoreValueOp op) { return storeValue(op); },
      [&](DropValueOp op) { return dropValue(op); },
      [&](LoadValueOp) { return loadValue(instruction); },
      [&](StateStoreOp) { return storePiece(instruction); },
      [&](StateLoadOp) { return loadPiece(instruction); },
      [&](StoreGradientOp) { return storeGradient(instruction); },
      [&](HostUpdateOp) { return updateOnHost(instruction); },
      [&](LoadShardOp) { return loadShard(instruction); },
      [&](ShardUpdateOp op) {
        return op.isOfPiece() ? updatePiece(instruction) : update(instruction);
      },
      [&](OuterDifferenceOp) { return subtract(instruction); },
      [&](OuterUpdateOp) { return synchronize(instruction); },
      [&](UnscaleGradientsOp) { return rescaleAll(); },
      [&](ClipGradientsOp) { return rescaleAll(); },
      [&](WriteBufferOp) { return compute(instruction); },
      [&](LossOp) { return compute(instruction); },
      [&](WaitOp) { return wait(instruction); },
      [&](RecordOp record) {
        now->clocks.record(record.getEvent().value_or(0),
                           static_cast<size_t>(instruction.stream));
        return success();
      });
  LogicalResult result = success();
  if (FcdpOps::visit<IsInPlan>(instruction.op,
                               [&](auto typed) { result = prove(typed); }))
    return result;
  if (isa<ViewMemberOp>(instruction.op))
    return viewMember(instruction);
  if (isa<ReleaseOp>(instruction.op))
    return release(instruction);
  return compute(instruction);
}

//===----------------------------------------------------------------------===//
// Accesses
//===----------------------------------------------------------------------===//

LogicalResult PlanRun::access(Arena arena, const Extent &extent, Mode mode,
                              int32_t content) {
  AccessMap &map = now->arenas[arena];
  size_t stream = static_cast<size_t>(current->stream);
  bool isWrite = mode == Mode::write;
  OpIndex index = issued.size() - 1;
  // An operation may read bytes that it then writes.
  now->clocks.issue(stream, index);
  if (OpIndex other = map.findConflict(extent, isWrite, stream, now->clocks)) {
    InFlightDiagnostic diag = emitError();
    diag << (isWrite ? "writes" : "reads") << " bytes [" << extent.begin << ", "
         << extent.end << ") of the " << stringifyArena(arena) << " arena on "
         << stringifyStream(current->stream)
         << ", not ordered with another access to them; expected '"
         << stringifyStream(current->stream) << "' to wait for '"
         << stringifyStream(issued[other].instruction->stream) << "'";
    bool isFree = llvm::any_of(
        issued[other].instruction->freeRanges, [&](const Extent &range) {
          return arena == Arena::device && range.overlaps(extent);
        });
    attachNote(diag, other,
               isFree ? "results of operators may use these bytes here"
                      : "the other access");
    return diag;
  }
  if (isWrite)
    map.write(extent, stream, index, content);
  else
    map.read(extent, stream, index);
  return success();
}

FailureOr<int32_t> PlanRun::readRoot(Root root) {
  if (root.state >= 0)
    return readState(root.state);
  const BufferModel &buffer = function->buffers[root.buffer];
  if (released[root.buffer]) {
    InFlightDiagnostic diag = emitError();
    diag << "reads a value after its release";
    attachNote(diag, released[root.buffer], "released here");
    return diag;
  }
  accesses[root.buffer][static_cast<size_t>(current->stream)] =
      issued.size() - 1;
  if (failed(access(Arena::device, buffer.extent, Mode::read)) ||
      failed(checkContent(buffer, contentOf[root.buffer])) ||
      failed(checkFresh(contents[contentOf[root.buffer]])))
    return failure();
  return contentOf[root.buffer];
}

FailureOr<int32_t> PlanRun::readOnly(const PlanInstruction &instruction) {
  if (instruction.reads.size() == 1)
    return readRoot(instruction.reads[0]);
  emitError() << "expected the value of a buffer or a state";
  return failure();
}

FailureOr<int32_t> PlanRun::readState(int32_t state) {
  const StateModel &model = plan.states[state];
  if (failed(access(getArena(model), model.extent, Mode::read)))
    return failure();
  int32_t content = findContent(state);
  if (content) {
    if (failed(checkFresh(contents[content])))
      return failure();
    return content;
  }
  InFlightDiagnostic diag = emitError();
  diag << "reads @" << StateOp(model.op).getSymName()
       << ", which has no valid content: in this run nothing has filled it, "
          "or something has overwritten it";
  const Content *last = &contents[0];
  getMap(model).visitContents(model.extent, [&](int32_t id) {
    if (contents[id].writer > last->writer)
      last = &contents[id];
    return true;
  });
  attachWriter(diag, *last, "last written here");
  diag.attachNote(StateOp(model.op).getLoc()) << "the state";
  return diag;
}

LogicalResult PlanRun::writeState(int32_t state, Content content) {
  const StateModel &model = plan.states[state];
  content.begin = model.extent.begin;
  content.end = model.extent.end;
  int32_t id = now->emptyContents[state] = addContent(content);
  return access(getArena(model), model.extent, Mode::write, id);
}

LogicalResult PlanRun::writeResult(const PlanInstruction &instruction,
                                   Content content) {
  const BufferModel &buffer = function->buffers[instruction.result];
  if (buffer.part >= 0)
    content.part = contentOf[buffer.part];
  content.begin = buffer.extent.begin;
  content.end = buffer.extent.end;
  int32_t id = contentOf[instruction.result] = addContent(content);
  accesses[instruction.result][static_cast<size_t>(instruction.stream)] =
      issued.size() - 1;
  if (failed(access(Arena::device, buffer.written, Mode::write, id)))
    return failure();
  if (buffer.part >= 0)
    getDevice().relabel(function->buffers[buffer.part].extent, id);
  return success();
}

LogicalResult PlanRun::wait(const PlanInstruction &instruction) {
  std::optional<int64_t> event =
      findEvent(::cast<WaitOp>(instruction.op).getToken());
  if (event &&
      now->clocks.wait(*event, static_cast<size_t>(instruction.stream)))
    return success();
  emitError() << "waits for an event that nothing has recorded in this run";
  return failure();
}

LogicalResult PlanRun::release(const PlanInstruction &instruction) {
  for (Root root : instruction.reads) {
    released[root.buffer] = issued.size() - 1;
    // After the release, compute may overwrite the memory.
    const Clock &last = accesses[root.buffer];
    OpIndex other = 0;
    for (size_t stream = 0; stream < kNumStreams; ++stream)
      if (!now->clocks.isOrdered(static_cast<size_t>(instruction.stream),
                                 stream, last[stream]))
        other = last[stream];
    if (!other)
      continue;
    InFlightDiagnostic diag = emitError();
    diag << "releases a value before compute has waited for all accesses to it";
    attachNote(diag, other, "the other access");
    return diag;
  }
  return success();
}
