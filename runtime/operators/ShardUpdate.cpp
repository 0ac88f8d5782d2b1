// SPDX-License-Identifier: Apache-2.0
//
// Runs the optimizer on this rank's shard.
#include "core/Packing.h"
#include "memory/Pool.h"
#include "operators/PreparedOp.h"
#include "optimizers/GradientScale.h"
#include "optimizers/Optimizer.h"
#include "optimizers/ScratchMemory.h"
#include "plan/StatePlaces.h"

#include <ATen/ops/empty.h>
#include <algorithm>
#include <optional>
#include <stdexcept>
#include <string>

namespace fcdp {

namespace {

/// Returns the last dimensions of a parameter that is updated as a whole, after
/// the product of all others.
Shape shapeOf(const UpdateSegment &parameter) {
  if (parameter.columns == 0)
    return {parameter.elements};
  return {parameter.elements / (parameter.rows * parameter.columns),
          parameter.rows, parameter.columns};
}

/// Throws std::runtime_error if the plan has places for what the update
/// allocates, but none of exactly the bytes of its scratch memory: the compiler
/// and the optimizer's class compute these independently.
void checkScratch(const StepPlan &plan, const plan::ShardUpdateT &op,
                  int64_t bytes) {
  if (bytes == 0)
    return;
  const auto wanted = uint64_t(placeBytes(bytes, 1)) + packing::kPoolTagBytes;
  std::vector<uint64_t> planned;
  for (const auto &function : plan.functions)
    for (const plan::ResultPlace &place : function->results)
      if (plan.ops[place.op()]->body.Asshard_update() == &op)
        planned.push_back(place.bytes());
  if (!planned.empty() && std::ranges::find(planned, wanted) == planned.end())
    throw std::runtime_error(
        "expected a planned place of " + std::to_string(wanted) +
        " bytes for the optimizer's scratch memory, got one of " +
        std::to_string(planned.back()) +
        ": the runtime and the compiler of this plan differ");
}

/// Used by the issuing thread only.
class ShardUpdate final : public PreparedOp {
public:
  ShardUpdate(const plan::ShardUpdateT &op, StepState &state)
      : op(op), bucket(*state.plan.buckets[op.bucket]),
        settings(state.plan.optimizerOf(op)), begin(int64_t(op.begin)),
        elements(op.end != 0 ? int64_t(op.end - op.begin)
                             : int64_t(bucket.shardElements)),
        shard(cut(plan::StateRole::shard, state)),
        states(factsOf(settings).states) {
    for (size_t i = 0; i < states.size(); ++i)
      whole.states.push_back(find(states[i], i, state));
    master = find(plan::StateRole::master, states.size(), state);
    whole.parameter = master.defined() ? master : shard;
    whole.grad = whole.sum = cut(plan::StateRole::grad, state);
    const OptimizedShard own{state.plan, op.bucket, whole.parameter,
                             state.pieces};
    optimizer = plan::visit(
        settings, [&](const auto &table) { return makeOptimizer(table, own); });
    const UpdateNeeds needs = optimizer->needs();
    cutParts(state, needs.unit);
    if (needs.unit == UpdateNeeds::Unit::Piece)
      pieces.emplace(whole,
                     at::isReducedFloatingType(whole.parameter.scalar_type()),
                     needs.numMemories, state.pieces);
    // The kernels read gradients of the parameter's type directly.
    gradScale.emplace(op.gradScale, whole.grad,
                      needs.dividesGradients &&
                          whole.grad.scalar_type() ==
                              whole.parameter.scalar_type());
    if (double base = state.plan.learningRate(); base != 0)
      rateFactor = learningRate(settings) / base;
    scratchBytes = needs.scratchBytes;
    checkScratch(state.plan, op, scratchBytes);
    allocatesSometimes = needs.allocatesSometimes;
  }

  void run(StepState &state) override {
    if (bucket.shardElements == 0 || state.skipsUpdates)
      return;
    gradScale->apply(whole.grad);
    at::Tensor typed = whole.grad.to(whole.parameter.scalar_type());
    UpdateState &updates = state.updates[op.bucket];
    // The pieces of a shard are one update.
    if (begin == 0) {
      updates.count.add_(1);
      ++updates.number;
    }
    at::Tensor scratch;
    if (scratchBytes != 0)
      scratch =
          at::empty({scratchBytes}, whole.grad.options().dtype(at::kByte));
    std::optional<ResultPool::Apart> apart;
    if (allocatesSometimes)
      apart.emplace();
    UpdateStep step{0, updates.number, updates.count, gradScale->divisor(),
                    scratch};
    for (UpdatePart part : parts) {
      if (!typed.is_same(whole.grad))
        part.grad = typed.narrow(0, part.segment.begin, part.segment.elements);
      step.rate = state.learningRate * rateFactor * part.segment.lrFactor;
      if (pieces)
        pieces->run(part, [&](const UpdatePart &piece) {
          optimizer->update(piece, step);
        });
      else
        optimizer->update(part, step);
    }
    apart.reset();
    scratch.reset();
    if (master.defined())
      shard.copy_(master);
  }

private:
  /// Returns the rank's part of a state, or an undefined tensor if the bucket
  /// has no such state.
  at::Tensor flat(plan::StateRole role, StepState &state) const {
    const plan::State *found = findState(bucket, role);
    return found ? state.flat(found->buf(),
                              int64_t(found->buf().bytes() /
                                      byteSize(toDType(found->dtype()))),
                              toDType(found->dtype()))
                 : at::Tensor();
  }
  /// Returns the updated elements of a state on the device.
  at::Tensor cut(plan::StateRole role, StepState &state) const {
    return flat(role, state).narrow(0, begin, elements);
  }
  /// Does the same for state `index` of the update, which may have been loaded
  /// from host memory.
  at::Tensor find(plan::StateRole role, size_t index, StepState &state) const {
    const plan::State *found = findState(bucket, role);
    if (!found || index >= op.states.size())
      return flat(role, state);
    const plan::Buf &loaded = op.states[index];
    DType type = toDType(found->dtype());
    return state.flat(loaded, int64_t(loaded.bytes() / byteSize(type)), type);
  }

  /// Cuts the shard into segments, or into parameters, whose factors follow
  /// each other.
  void cutParts(StepState &state, UpdateNeeds::Unit unit) {
    auto cutShard =
        unit == UpdateNeeds::Unit::Parameter ? wholeSegments : updateSegments;
    std::vector<int64_t> numFactors(states.size());
    for (UpdateSegment of :
         cutShard(state.plan, op.bucket, state.place, weightDecay(settings))) {
      int64_t end = std::min(of.begin + of.elements, begin + elements);
      of.begin = std::max(of.begin, begin);
      of.elements = end - of.begin;
      of.begin -= begin;
      if (of.elements <= 0)
        continue;
      UpdatePart &part = parts.emplace_back();
      part.segment = of;
      part.parameter = whole.parameter.narrow(0, of.begin, of.elements);
      part.grad = part.sum = whole.grad.narrow(0, of.begin, of.elements);
      for (size_t i = 0; i < states.size(); ++i) {
        if (!isFactor(states[i])) {
          part.states.push_back(cutState(
              whole.states[i], whole.parameter.numel(), of.begin, of.elements));
          continue;
        }
        const Shape shape = shapeOf(of);
        auto factors = stateShape(states[i], shape, bucket.maxSide);
        int64_t begin = numFactors[i];
        numFactors[i] += numPlaceElements(states[i], shape, bucket.maxSide);
        part.states.push_back(whole.states[i].narrow(
            0, begin, factors ? numElements(*factors) : 0));
      }
    }
  }

  const plan::ShardUpdateT &op;
  const plan::BucketT &bucket;
  const plan::OptimizerUnion &settings;
  /// The factor on the step's learning rate.
  double rateFactor = 1;
  /// The elements of the shard that are updated.
  const int64_t begin, elements;
  at::Tensor shard, master;
  /// The roles of the optimizer's states.
  std::span<const plan::StateRole> states;
  /// The whole shard. Its parameter is the memory that the optimizer updates:
  /// the master, if there is one, or the shard.
  UpdatePart whole;
  /// One part, unless parameters of the bucket have different settings.
  std::vector<UpdatePart> parts;
  std::unique_ptr<Optimizer> optimizer;
  std::optional<GradientScale> gradScale;
  /// None if segments are updated as a whole.
  std::optional<PieceUpdate> pieces;
  /// The bytes of scratch memory while the update runs.
  int64_t scratchBytes = 0;
  bool allocatesSometimes = false;
};

} // namespace

PreparedOpPtr prepare(const plan::ShardUpdateT &op, const char *,
                      StepState &state) {
  return std::make_unique<ShardUpdate>(op, state);
}

std::optional<uint64_t> countBytes(const plan::ShardUpdateT &op,
                                   const StepPlan &plan) {
  const plan::BucketT &bucket = *plan.buckets[op.bucket];
  const uint64_t elements =
      op.end != 0 ? op.end - op.begin : bucket.shardElements;
  return elements * byteSize(toDType(bucket.storage));
}

} // namespace fcdp
