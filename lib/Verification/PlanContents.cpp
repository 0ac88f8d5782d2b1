// SPDX-License-Identifier: Apache-2.0
//
// Checks the content of memory, and computes the content that gathers and
// copies produce.

#include "PlanRun.h"

#include "fcdp/Analysis/FunctionBoundaries.h"

using namespace mlir;
using namespace fcdp;

uint8_t PlanRun::getAxes() const {
  MeshOp mesh = plan.mesh;
  return (mesh.getNode() > 1 ? 1 << static_cast<unsigned>(Axis::node) : 0) |
         (mesh.getLocal() > 1 ? 1 << static_cast<unsigned>(Axis::local) : 0);
}

/// Returns the axes over which a rank owns all of the bucket, so that no gather
/// is needed.
uint8_t PlanRun::getOwnAxes(int32_t bucket) const {
  switch (BucketOp(plan.buckets[bucket].op).getSharding()) {
  case Sharding::world:
    return 0;
  case Sharding::node:
    return getAxes() & kNodeBit;
  case Sharding::none:
    return getAxes();
  }
  llvm_unreachable("unknown sharding");
}

uint8_t PlanRun::getReducedAxes(int32_t bucket) const {
  return reducesWithinNode(plan.buckets[bucket].op) ? getAxes() & kLocalBit
                                                    : getAxes();
}

/// Returns the bits of `axes`, without axes of one rank.
uint8_t PlanRun::getBit(ArrayAttr axes) const {
  uint8_t bits = 0;
  for (auto axis : axes.getAsRange<AxisAttr>())
    bits |= 1 << static_cast<unsigned>(axis.getValue());
  return bits & getAxes();
}

//===----------------------------------------------------------------------===//
// Checks
//===----------------------------------------------------------------------===//

bool PlanRun::isFor(int32_t state, const Content &content) const {
  const StateModel &model = plan.states[state];
  StateOp op = model.op;
  if (content.bucket != model.bucket || content.begin != model.extent.begin ||
      content.end != model.extent.end ||
      content.kind != getContentKind(op.getRole()))
    return false;
  if (content.kind != ContentKind::weights)
    return true;
  if (op.getRole() == StateRole::shard)
    return content.axes == getOwnAxes(model.bucket);
  BucketOp bucket = plan.buckets[model.bucket].op;
  int64_t elements = bucket.getElements();
  bool isWhole = op.getTensorType().getNumElements() == elements;
  uint8_t axes = isWhole ? getAxes() : getAxes() & kNodeBit;
  return content.axes == axes || model.extent.isEmpty();
}

int32_t PlanRun::findContent(int32_t state) {
  const StateModel &model = plan.states[state];
  int32_t found = now->emptyContents[state];
  bool isFirst = true, isOne = true;
  getMap(model).visitContents(model.extent, [&](int32_t content) {
    isOne = isFirst || content == found;
    found = content;
    isFirst = false;
    return isOne;
  });
  return isOne && isFor(state, contents[found]) ? found : 0;
}

LogicalResult PlanRun::checkContent(const BufferModel &buffer,
                                    int32_t content) {
  int32_t foreign = content;
  getDevice().visitContents(buffer.extent, [&](int32_t other) {
    int32_t part = other;
    while (part && part != content)
      part = contents[part].part;
    if (part != content)
      foreign = other;
    return part == content;
  });
  if (foreign == content)
    return success();
  InFlightDiagnostic diag = emitError();
  diag << "reads a value whose memory, bytes [" << buffer.extent.begin << ", "
       << buffer.extent.end << ") of the device arena, has been overwritten";
  attachWriter(diag, contents[content], "the value is written here");
  attachWriter(diag, contents[foreign], "and overwritten here");
  return diag;
}

bool PlanRun::isReplaced(int32_t bucket) const {
  return isMicrobatch(function->role) && now->updates[bucket] >= firstIndex;
}

LogicalResult PlanRun::checkFresh(const Content &content) {
  if (content.kind != ContentKind::weights)
    return success();
  bool isFresh = content.version == now->versions[content.bucket];
  if (isFresh && !isReplaced(content.bucket))
    return success();
  InFlightDiagnostic diag = emitError();
  if (isFresh) {
    diag << "reads " << plan.describe(content.bucket) << " after its "
         << nameUpdate(content.bucket)
         << "; a micro-batch computes with the parameters from before the "
            "update";
    attachNote(diag, now->updates[content.bucket], "updated here");
    return diag;
  }
  diag << "reads a dirty copy of " << plan.describe(content.bucket)
       << ", from before its update";
  attachWriter(diag, content, "the copy was made here");
  attachNote(diag, now->updates[content.bucket], "updated here");
  return diag;
}

LogicalResult PlanRun::checkWeights(const Content &content, int32_t bucket) {
  if (content.kind == ContentKind::weights && content.bucket == bucket)
    return success();
  InFlightDiagnostic diag = emitError();
  diag << "expected a part of " << plan.describe(bucket)
       << " as its input, got something else";
  attachWriter(diag, content, "it is written here");
  return diag;
}

//===----------------------------------------------------------------------===//
// Parameters
//===----------------------------------------------------------------------===//

/// Adds axes to those that `content` has been gathered over.
LogicalResult PlanRun::addGathered(uint8_t &gathered, ArrayAttr axes,
                                   const Content &content) {
  uint8_t bit = getBit(axes);
  // The gather between nodes comes first, because it puts the slices in order.
  if ((gathered & bit) ||
      (bit == kLocalBit && (getAxes() & kNodeBit) && !(gathered & kNodeBit))) {
    InFlightDiagnostic diag = emitError();
    diag << "expected to gather between nodes first, then within them, once "
            "each";
    attachWriter(diag, content, "its input is written here");
    return diag;
  }
  gathered |= bit;
  return success();
}

/// Checks that a gradient is reduced over all ranks that a step reduces it
/// over.
LogicalResult PlanRun::checkReduced(const Content &content, int32_t bucket) {
  if (failed(checkSum(content, bucket)))
    return failure();
  if (content.axes == getReducedAxes(bucket))
    return success();
  InFlightDiagnostic diag = emitError();
  diag << "expected gradients of " << plan.describe(bucket)
       << " that are reduced over all ranks"
       << (getReducedAxes(bucket) == getAxes() ? "" : " of the node");
  attachWriter(diag, content, "they are written here");
  return diag;
}

LogicalResult PlanRun::gather(const PlanInstruction &instruction) {
  auto op = ::cast<CollectiveOpInterface>(instruction.op);
  FailureOr<int32_t> read = readOnly(instruction);
  if (failed(read))
    return failure();
  Content content = contents[*read];
  bool isGradient = op.isOfGradient();
  bool isDifference = isGradient && content.kind == ContentKind::difference;
  if (failed(isDifference ? checkDifference(content, instruction.bucket,
                                            getAxes() & kNodeBit, 0)
             : isGradient ? checkReduced(content, instruction.bucket)
                          : checkWeights(content, instruction.bucket)) ||
      failed(addGathered(isGradient ? content.gathered : content.axes,
                         op.getAxes(), contents[*read])))
    return failure();
  const BufferModel &result = function->buffers[instruction.result];
  Root input = instruction.reads[0];
  const Extent &from = getExtent(input);
  if (result.written.overlaps(from) &&
      (input.buffer < 0 || result.part != input.buffer))
    return emitError() << "its input overlaps its result, but is not at "
                          "its own place inside it";
  if (instruction.reference >= 0 &&
      (failed(checkReference(instruction)) ||
       failed(writeScratch(op.getScratchAttr(), {from, result.extent}))))
    return failure();
  if (failed(writeResult(instruction, content)))
    return failure();
  fillState(instruction);
  return success();
}

/// Reads the slices that a coded gather refers to. They may be dirty, but must
/// be from an earlier gather of the bucket. Before the first gather nothing is
/// there, and the runtime reads nothing.
LogicalResult PlanRun::checkReference(const PlanInstruction &instruction) {
  const StateModel &state = plan.states[instruction.reference];
  if (failed(access(getArena(state), state.extent, Mode::read)))
    return failure();
  int32_t foreign = 0;
  getMap(state).visitContents(state.extent, [&](int32_t content) {
    if (content && !isFor(instruction.reference, contents[content]))
      foreign = content;
    return !foreign;
  });
  if (!foreign)
    return success();
  InFlightDiagnostic diag = emitError();
  diag << "refers to @" << StateOp(state.op).getSymName()
       << ", which has something else than the slice that was gathered last";
  attachWriter(diag, contents[foreign], "last written here");
  return diag;
}

/// Writes to scratch memory, which must not overlap `others`: the memory of
/// the operation's input and result.
LogicalResult PlanRun::writeScratch(BufferAttr scratch,
                                    ArrayRef<Extent> others) {
  Extent extent{scratch.getOffset(), scratch.getOffset() + scratch.getBytes()};
  if (llvm::any_of(others,
                   [&](const Extent &other) { return extent.overlaps(other); }))
    return emitError() << "its input, scratch and result overlap";
  int32_t messages = addContent(Content());
  return access(Arena::device, extent, Mode::write, messages);
}

/// Records the content of a state that is written directly. States without
/// bytes have no other record of it.
void PlanRun::fillState(const PlanInstruction &instruction) {
  if (FlatSymbolRefAttr into = getInto(instruction.op))
    for (auto [index, state] : llvm::enumerate(plan.states))
      if (StateOp(state.op).getSymNameAttr() == into.getAttr())
        now->emptyContents[index] = contentOf[instruction.result];
}

LogicalResult PlanRun::cast(const PlanInstruction &instruction) {
  FailureOr<int32_t> read = readOnly(instruction);
  if (failed(read))
    return failure();
  return writeResult(instruction, contents[*read]);
}

LogicalResult PlanRun::checkCopied(const Content &content,
                                   const PlanInstruction &instruction) {
  bool isSum = StateOp(plan.states[instruction.state].op).getRole() ==
               StateRole::host_grad;
  return isSum ? checkSum(content, instruction.bucket)
               : checkWeights(content, instruction.bucket);
}

LogicalResult PlanRun::store(const PlanInstruction &instruction) {
  FailureOr<int32_t> read = readOnly(instruction);
  if (failed(read) || failed(checkCopied(contents[*read], instruction)))
    return failure();
  return writeState(instruction.state, contents[*read]);
}

LogicalResult PlanRun::load(const PlanInstruction &instruction) {
  FailureOr<int32_t> read = readState(instruction.state);
  if (failed(read) || failed(checkCopied(contents[*read], instruction)) ||
      failed(writeResult(instruction, contents[*read])))
    return failure();
  fillState(instruction);
  return success();
}

/// Checks a view. It accesses no memory, but its input must be the bucket's
/// current copy.
LogicalResult PlanRun::viewMember(const PlanInstruction &instruction) {
  if (instruction.reads.size() != 1)
    return emitError() << "expected the value of a buffer or a state";
  Root root = instruction.reads[0];
  int32_t id =
      root.state >= 0 ? findContent(root.state) : contentOf[root.buffer];
  if (!id) // the reader's error is more precise
    return success();
  return success(succeeded(checkWeights(contents[id], instruction.bucket)) &&
                 succeeded(checkFresh(contents[id])));
}
