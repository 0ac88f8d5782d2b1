// SPDX-License-Identifier: Apache-2.0
#include "operators/GraphSegment.h"

#include "operators/RecordedOp.h"

#include <algorithm>
#include <set>
#include <stdexcept>

namespace fcdp {

namespace {

/// Launching a graph takes the host as long as issuing one or two operators.
constexpr size_t kLeastOps = 3;
/// The limit for one segment and recording of the pool. Each micro-batch of a
/// step may have its results in other places.
constexpr size_t kMostGraphs = 8;

bool mayBeInGraph(const plan::OpT &op) {
  if (streamOf(op) != StreamId::Compute)
    return false;
  switch (op.body.type) {
  case plan::OpBody::aten_call:
    return op.body.Asaten_call()->replayable;
  case plan::OpBody::pack:
    // A pack of this kind does something else in a micro-batch of weight 0.
    return !op.body.Aspack()->whole;
  case plan::OpBody::write_buffer:
  case plan::OpBody::cast:
  case plan::OpBody::accumulate:
  case plan::OpBody::add:
    return true;
  default:
    return false;
  }
}

/// The slots that an operation reads, writes and drops.
struct SlotUse {
  std::vector<size_t> reads, writes, drops;

  explicit SlotUse(const plan::OpT &op) {
    if (auto *call = op.body.Asaten_call())
      addCall(*call);
    if (auto *pack = op.body.Aspack()) {
      for (const plan::PackMember &member : pack->members)
        reads.push_back(member.source());
      addFreed(pack->free);
    }
    if (auto *write = op.body.Aswrite_buffer()) {
      reads.push_back(write->slot);
      addFreed(write->free);
    }
  }

private:
  void addCall(const plan::AtenCallT &call) {
    for (size_t i = 0; i < call.args.size(); ++i)
      if (std::find(call.unread.begin(), call.unread.end(), i) ==
          call.unread.end())
        addDefined(call.args[i]->slots, reads);
    addDefined(call.results, writes);
    addFreed(call.free);
  }
  static void addDefined(const std::vector<int32_t> &slots,
                         std::vector<size_t> &out) {
    std::copy_if(slots.begin(), slots.end(), std::back_inserter(out),
                 [](int32_t slot) { return slot >= 0; });
  }
  void addFreed(const std::vector<uint32_t> &slots) {
    drops.assign(slots.begin(), slots.end());
  }
};

const void *addressOf(const at::Tensor &tensor) {
  return tensor.defined() ? tensor.const_data_ptr() : nullptr;
}

} // namespace

std::vector<OpRange> findSegments(const StepPlan &plan) {
  std::vector<OpRange> segments;
  for (const auto &function : plan.functions) {
    // They have other pools than steps, or work on host memory.
    if (isSynchronized(function->role))
      continue;
    size_t first = function->first;
    for (size_t op = function->first; op <= function->end; ++op) {
      if (op < function->end && mayBeInGraph(*plan.ops[op]))
        continue;
      if (op - first >= kLeastOps)
        segments.push_back({first, op});
      first = op + 1;
    }
  }
  return segments;
}

GraphSegment::GraphSegment(const StepPlan &plan, OpRange range,
                           std::vector<std::unique_ptr<PreparedOp>> givenOps,
                           GraphCapture &capture, ResultPool &pool)
    : ops(std::move(givenOps)), capturing(capture), pool(pool) {
  std::set<size_t> reads, own;
  for (size_t op = range.first; op < range.end; ++op) {
    SlotUse use(*plan.ops[op]);
    for (size_t slot : use.reads)
      if (!own.count(slot) &&
          plan.slots[slot]->kind == plan::SlotKind::transient)
        reads.insert(slot);
    own.insert(use.writes.begin(), use.writes.end());
    for (size_t slot : use.drops)
      own.erase(slot);
    freed.push_back(std::move(use.drops));
  }
  operandSlots.assign(reads.begin(), reads.end());
  resultSlots.assign(own.begin(), own.end());
}

std::vector<const void *>
GraphSegment::findOperands(const StepState &state) const {
  std::vector<const void *> operands;
  for (size_t slot : operandSlots)
    operands.push_back(addressOf(state.slots[slot]));
  return operands;
}

bool GraphSegment::hasForeignOperand(const StepState &state) const {
  return std::any_of(
      operandSlots.begin(), operandSlots.end(), [&](size_t slot) {
        const at::Tensor &tensor = state.slots[slot];
        return tensor.defined() && tensor.device() != state.device;
      });
}

size_t GraphSegment::countCurrent() const {
  return std::count_if(captured.begin(), captured.end(), [&](auto &one) {
    return one.recording == pool.numRecordings();
  });
}

bool GraphSegment::fits(const Captured &one, const StepState &state) const {
  if (!one.isExact || one.recording != pool.numRecordings())
    return false;
  for (size_t i = 0; i < operandSlots.size(); ++i)
    if (addressOf(state.slots[operandSlots[i]]) != one.operands[i])
      return false;
  for (size_t i = 0; i < one.memory.size(); ++i)
    if (pool.nextPlace(i) != one.memory[i])
      return false;
  return true;
}

void GraphSegment::begin(const StepState &state) {
  mode = Mode::OneByOne;
  if (isRefused || !pool.isExact() || hasForeignOperand(state))
    return;
  for (current = 0; current < captured.size(); ++current)
    if (fits(captured[current], state)) {
      mode = Mode::Replaying;
      return;
    }
  if (countCurrent() == kMostGraphs)
    return;
  Captured &one = captured.emplace_back();
  one.operands = findOperands(state);
  one.recording = pool.numRecordings();
  firstPlaced = pool.numPlaced();
  systemBefore = pool.systemAllocations();
  capturing.begin();
  mode = Mode::Capturing;
}

void GraphSegment::capture(size_t position, StepState &state) {
  Captured &one = captured[current];
  size_t before = pool.numPlaced();
  try {
    ops[position]->run(state);
  } catch (const std::exception &error) {
    capturing.abandon();
    throw wrapError("", error,
                    "; it was being captured for a graph, which "
                    "--cuda-graphs=off avoids");
  }
  one.allocations.push_back(pool.numPlaced() - before);
  // This includes allocations that only the recorded step has made.
  for (size_t i = firstPlaced + one.memory.size(); i < pool.numPlaced(); ++i)
    one.memory.push_back(pool.place(i));
}

void GraphSegment::replay(size_t position, StepState &state) {
  pool.skip(captured[current].allocations[position]);
  state.drop(freed[position]);
}

void GraphSegment::keepResults(const StepState &state) {
  Captured &one = captured[current];
  for (size_t slot : resultSlots) {
    const at::Tensor &tensor = state.slots[slot];
    // The lifetime of memory on another device is unknown.
    isRefused |= tensor.defined() && tensor.device() != state.device;
    one.results.push_back(tensor.defined() ? borrow(tensor) : at::Tensor());
  }
}

void GraphSegment::end(StepState &state) {
  Captured &one = captured[current];
  if (mode == Mode::Replaying) {
    // By now no tensor on the host refers to memory that the graph overwrites.
    one.graph->launch();
    for (size_t i = 0; i < resultSlots.size(); ++i)
      state.slots[resultSlots[i]] = one.results[i];
    return;
  }
  one.graph = capturing.end();
  one.graph->launch();
  isRefused = !pool.isReplaying() || pool.systemAllocations() != systemBefore;
  pool.endOperation();
  one.isExact = pool.isExact();
  keepResults(state);
}

void GraphSegment::run(size_t position, StepState &state) {
  if (position == 0)
    begin(state);
  switch (mode) {
  case Mode::OneByOne:
    return ops[position]->run(state);
  case Mode::Capturing:
    capture(position, state);
    break;
  case Mode::Replaying:
    replay(position, state);
    break;
  }
  if (position + 1 == ops.size())
    end(state);
}

} // namespace fcdp
