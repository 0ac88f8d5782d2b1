// SPDX-License-Identifier: Apache-2.0
//
// Checks outer steps, which synchronize nodes.

#include "PlanRun.h"

using namespace mlir;
using namespace fcdp;

bool PlanRun::isUpdatedHere(BucketOp bucket) const {
  if (isOuter(function->role))
    return bucket.getOuter() == std::optional<uint64_t>(function->number);
  return function->role == Role::update && bucket.getTrainable();
}

StringRef PlanRun::nameUpdate(int32_t bucket) const {
  return BucketOp(plan.buckets[bucket].op).getOuter() ? "outer update"
                                                      : "update";
}

/// Checks that `content` is a difference of the bucket's parameters since its
/// last update, and that it is reduced and gathered over these axes.
LogicalResult PlanRun::checkDifference(const Content &content, int32_t bucket,
                                       uint8_t reduced, uint8_t gathered) {
  if (content.kind == ContentKind::difference && content.bucket == bucket &&
      content.version == now->versions[bucket] && content.axes == reduced &&
      content.gathered == gathered)
    return success();
  InFlightDiagnostic diag = emitError();
  diag << "expected the difference of " << plan.describe(bucket)
       << " since its last update, "
       << (gathered  ? "summed over nodes and gathered"
           : reduced ? "summed over nodes"
                     : "of this node");
  attachWriter(diag, content, "its input is written here");
  return diag;
}

LogicalResult PlanRun::subtract(const PlanInstruction &instruction) {
  const BucketModel &bucket = plan.buckets[instruction.bucket];
  int32_t master = bucket.getState(StateRole::master);
  int32_t own = master >= 0 ? master : bucket.getState(StateRole::shard);
  int32_t outer = bucket.getState(StateRole::outer);
  if (own < 0 || outer < 0)
    return emitError() << "expected states 'shard' and 'outer'";
  if (failed(readState(own)) || failed(readState(outer)))
    return failure();
  Content content;
  content.kind = ContentKind::difference;
  content.bucket = instruction.bucket;
  content.version = now->versions[instruction.bucket];
  return writeResult(instruction, content);
}

LogicalResult PlanRun::synchronize(const PlanInstruction &instruction) {
  const BucketModel &bucket = plan.buckets[instruction.bucket];
  FailureOr<int32_t> read = readOnly(instruction);
  if (failed(read) ||
      failed(checkDifference(contents[*read], instruction.bucket,
                             getAxes() & kNodeBit, getAxes() & kNodeBit)))
    return failure();
  now->updates[instruction.bucket] = issued.size() - 1;
  int32_t version = ++now->versions[instruction.bucket];
  for (int32_t state : bucket.states) {
    if (state < 0)
      continue;
    StateRole role = StateOp(plan.states[state].op).getRole();
    bool isReplaced = role == StateRole::shard || role == StateRole::master;
    if (!isReplaced && !isOuterState(role))
      continue;
    // The replaced content must be present, but it is dirty from here on.
    int32_t old = findContent(state);
    if (isOuterState(role) && failed(readState(state)))
      return failure();
    Content content = contents[old];
    content.version = version;
    if (failed(writeState(state, content)))
      return failure();
  }
  return success();
}
