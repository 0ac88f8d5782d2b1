// SPDX-License-Identifier: Apache-2.0
//
// Checks the accumulated gradients, and the updates that use them.

#include "PlanRun.h"

using namespace mlir;
using namespace fcdp;

LogicalResult PlanRun::checkSum(const Content &content, int32_t bucket) {
  if (content.kind == ContentKind::gradient && content.bucket == bucket &&
      !content.takenBy)
    return success();
  InFlightDiagnostic diag = emitError();
  diag << "expected gradients of " << plan.describe(bucket)
       << " as its input, got "
       << (content.takenBy ? "some that an update has used" : "something else");
  attachWriter(diag, content, "it is written here");
  if (content.takenBy)
    attachNote(diag, content.takenBy, "used here");
  return diag;
}

LogicalResult PlanRun::checkComplete(const Content &content, int32_t bucket) {
  if (failed(checkSum(content, bucket)))
    return failure();
  if (failed(checkReduced(content, bucket)))
    return failure();
  // Within a node ranks own the parts that they have reduced. Types refuse most
  // values that were gathered over other axes before, because each of these has
  // another size.
  bool isOwned = reducesWithinNode(plan.buckets[bucket].op);
  if (content.gathered != (isOwned ? 0 : getOwnAxes(bucket))) {
    InFlightDiagnostic diag = emitError();
    diag << "expected all of the gradients of " << plan.describe(bucket)
         << " that a rank owns";
    attachWriter(diag, content, "they are written here");
    return diag;
  }
  if (content.isPrefix && content.batch == now->batch)
    return success();
  InFlightDiagnostic diag = emitError();
  diag << "gradients of " << plan.describe(bucket) << " lack those of "
       << (content.batch == now->batch ? "all micro-batches but the last"
                                       : "the last micro-batch");
  attachWriter(diag, content, "the sum is written here");
  return diag;
}

//===----------------------------------------------------------------------===//
// Gradients
//===----------------------------------------------------------------------===//

/// Handles an operator: it reads its operands and may write a gradient in
/// place.
LogicalResult PlanRun::compute(const PlanInstruction &instruction) {
  for (Root root : instruction.reads)
    if (failed(readRoot(root)))
      return failure();
  if (instruction.packed < 0)
    return success();
  int32_t content = addContent(Content());
  inPlace[instruction.packed].push_back({instruction.place, content});
  return access(Arena::device, instruction.place, Mode::write, content);
}

/// Checks that in-place gradients have not been overwritten.
LogicalResult PlanRun::checkInPlace(const PlanInstruction &instruction) {
  for (const InPlace &made : inPlace.lookup(instruction.result)) {
    int32_t other = made.content;
    getDevice().visitContents(made.place, [&](int32_t content) {
      other = content;
      return content == made.content;
    });
    if (other == made.content)
      continue;
    InFlightDiagnostic diag = emitError();
    diag << "a gradient that was written in place at bytes ["
         << made.place.begin << ", " << made.place.end
         << ") is overwritten before the pack";
    attachWriter(diag, contents[made.content], "it is written here");
    attachWriter(diag, contents[other], "overwritten here");
    return diag;
  }
  return success();
}

LogicalResult PlanRun::pack(const PlanInstruction &instruction) {
  if (failed(checkInPlace(instruction)))
    return failure();
  auto op = ::cast<PackOp>(instruction.op);
  for (Root root : instruction.reads)
    if (failed(readRoot(root)))
      return failure();
  llvm::DenseSet<Attribute> given(op.getParameters().begin(),
                                  op.getParameters().end());
  BucketOp bucket = plan.buckets[instruction.bucket].op;
  for (auto member : bucket.getMembers().getAsRange<MemberAttr>())
    if (!given.contains(member.getParameter()))
      return emitError() << "expected a gradient of " << member.getParameter();
  Content content;
  content.kind = ContentKind::gradient;
  content.bucket = instruction.bucket;
  content.batch = now->batch;
  content.isPrefix = isFirstBatch();
  return writeResult(instruction, content);
}

LogicalResult PlanRun::reduce(const PlanInstruction &instruction) {
  auto op = ::cast<CollectiveOpInterface>(instruction.op);
  FailureOr<int32_t> read = readOnly(instruction);
  if (failed(read))
    return failure();
  Content content = contents[*read];
  if (failed(content.kind == ContentKind::difference
                 ? checkDifference(content, instruction.bucket, 0, 0)
                 : checkSum(content, instruction.bucket)))
    return failure();
  uint8_t bit = getBit(op.getAxes());
  // The reduction within nodes comes first, so that each rank gets the part
  // that it owns.
  if ((content.axes & bit) || (bit == kLocalBit && (content.axes & kNodeBit))) {
    InFlightDiagnostic diag = emitError();
    diag << "expected to reduce within nodes first, then between them, once "
            "each";
    attachWriter(diag, content, "its input is written here");
    return diag;
  }
  content.axes |= bit;
  Root input = instruction.reads[0];
  const Extent &from = getExtent(input);
  const Extent &to = function->buffers[instruction.result].extent;
  if (from.overlaps(to))
    return emitError() << "its input, scratch and result overlap";
  if ((instruction.reference >= 0 && failed(updateReference(instruction))) ||
      failed(writeScratch(op.getScratchAttr(), {from, to})))
    return failure();
  return writeResult(instruction, content);
}

/// Reads the state that earlier messages have left, and writes the new one.
/// Before the first messages nothing is there, and it starts as zeros. Other
/// states have other places, so it is enough to check the order.
LogicalResult PlanRun::updateReference(const PlanInstruction &instruction) {
  const StateModel &state = plan.states[instruction.reference];
  Content content;
  content.kind = getContentKind(StateOp(state.op).getRole());
  content.bucket = state.bucket;
  if (failed(access(getArena(state), state.extent, Mode::read)))
    return failure();
  return writeState(instruction.reference, content);
}

/// Adds `value` to `sum`. An accumulator must start with the first micro-batch
/// and include each micro-batch once.
FailureOr<Content> PlanRun::add(const Content &sum, const Content &value,
                                const Twine &what) {
  bool isNext = sum.batch == now->batch - 1 && !isFirstBatch() &&
                sum.isPrefix && sum.axes == value.axes &&
                sum.gathered == value.gathered;
  bool isCurrent = value.batch == now->batch && !value.isPrefix;
  if (!isNext || !isCurrent) {
    InFlightDiagnostic diag = emitError();
    diag << "adds to " << what;
    if (sum.batch == now->batch)
      diag << " twice in one micro-batch";
    else if (sum.axes != value.axes)
      diag << " gradients that are reduced over other axes";
    else if (!isNext)
      diag << ", which lacks earlier micro-batches";
    else
      diag << " gradients that are not of this micro-batch alone";
    attachWriter(diag, sum, "the sum is written here");
    return diag;
  }
  Content content = value;
  content.isPrefix = true;
  return content;
}

LogicalResult PlanRun::accumulate(const PlanInstruction &instruction) {
  auto op = ::cast<AccumulateOp>(instruction.op);
  if (instruction.reads.size() != 1)
    return emitError() << "expected the value of a buffer or a state";
  Root input = instruction.reads[0];
  const Extent &from = getExtent(input);
  const Extent &to = plan.states[instruction.state].extent;
  if (op.getMode() == Accumulate::overwrite && from.begin == to.begin &&
      from.end == to.end) {
    // The value was written directly into the accumulator, so nothing runs.
    if (input.buffer >= 0)
      now->emptyContents[instruction.state] = contentOf[input.buffer];
    return success();
  }
  FailureOr<int32_t> read = readOnly(instruction);
  if (failed(read) || failed(checkSum(contents[*read], instruction.bucket)))
    return failure();
  Content content = contents[*read];
  if (from.overlaps(to))
    return emitError() << "its value overlaps the sum";
  if (op.getMode() == Accumulate::overwrite)
    return writeState(instruction.state, content);
  FailureOr<int32_t> sum = readState(instruction.state);
  if (failed(sum) || failed(checkSum(contents[*sum], instruction.bucket)))
    return failure();
  StringRef name = StateOp(plan.states[instruction.state].op).getSymName();
  FailureOr<Content> added = add(contents[*sum], content, "@" + name);
  if (failed(added))
    return failure();
  return writeState(instruction.state, *added);
}

LogicalResult PlanRun::add(const PlanInstruction &instruction) {
  if (instruction.reads.size() != 2)
    return emitError() << "expected the values of two buffers or states";
  FailureOr<int32_t> sum = readRoot(instruction.reads[0]);
  if (failed(sum) || failed(checkSum(contents[*sum], contents[*sum].bucket)))
    return failure();
  FailureOr<int32_t> value = readRoot(instruction.reads[1]);
  if (failed(value) ||
      failed(checkSum(contents[*value], contents[*sum].bucket)))
    return failure();
  const Extent &to = function->buffers[instruction.result].extent;
  for (Root root : instruction.reads)
    if (getExtent(root).overlaps(to))
      return emitError() << "its operands overlap its result";
  FailureOr<Content> added =
      add(contents[*sum], contents[*value], "a sum from host memory");
  if (failed(added))
    return failure();
  return writeResult(instruction, *added);
}

//===----------------------------------------------------------------------===//
// Updates
//===----------------------------------------------------------------------===//

LogicalResult PlanRun::update(const PlanInstruction &instruction) {
  const BucketModel &bucket = plan.buckets[instruction.bucket];
  int32_t gradState = bucket.getState(StateRole::grad);
  if (gradState < 0 || bucket.getState(StateRole::shard) < 0)
    return emitError() << "expected states 'shard' and 'grad'";
  FailureOr<int32_t> grad = readState(gradState);
  if (failed(grad) ||
      failed(checkComplete(contents[*grad], instruction.bucket)))
    return failure();
  // The states that it updates, with the content of each.
  SmallVector<std::pair<int32_t, int32_t>> updated;
  for (int32_t state : bucket.states) {
    if (state < 0)
      continue;
    StateRole role = StateOp(plan.states[state].op).getRole();
    if (role != StateRole::shard && !isOptimizerState(role))
      continue;
    FailureOr<int32_t> old = readState(state);
    if (failed(old))
      return failure();
    updated.emplace_back(state, *old);
  }
  OpIndex index = issued.size() - 1;
  ++now->versions[instruction.bucket];
  now->updates[instruction.bucket] = index;
  Content taken = contents[*grad];
  taken.takenBy = index;
  if (failed(writeState(gradState, taken)))
    return failure();
  for (auto [state, old] : updated) {
    Content content = contents[old];
    content.version = now->versions[instruction.bucket];
    if (failed(writeState(state, content)))
      return failure();
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Outer steps
//===----------------------------------------------------------------------===//

LogicalResult PlanRun::rescaleAll() {
  for (size_t i = 0; i < plan.buckets.size(); ++i) {
    int32_t state = plan.buckets[i].getState(StateRole::grad);
    if (state < 0)
      continue;
    FailureOr<int32_t> grad = readState(state);
    if (failed(grad) || failed(checkComplete(contents[*grad], i)) ||
        failed(writeState(state, contents[*grad])))
      return failure();
  }
  return success();
}
