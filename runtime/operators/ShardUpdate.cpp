// SPDX-License-Identifier: Apache-2.0
//
// Runs the optimizer on this rank's shard, with PyTorch's own fused kernels.
#include "operators/PreparedOp.h"
#include "optimizers/Adafactor.h"
#include "optimizers/BlockStates.h"
#include "optimizers/GradientScale.h"
#include "optimizers/NewtonSchulz.h"
#include "optimizers/PieceUpdate.h"
#include "plan/StatePlaces.h"

#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/empty.h>
#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>

namespace fcdp {

namespace {

bool updatesWhole(const plan::OptimizerUnion &optimizer) {
  return optimizer.Asmuon() || optimizer.Asadafactor();
}

/// Returns the most scratch memory that a parameter of a bucket needs.
int64_t scratchOf(const StepPlan &plan, size_t bucket,
                  const plan::OptimizerUnion &optimizer) {
  int64_t bytes = 0;
  for (const auto &parameter : plan.parameters)
    if (parameter->bucket == bucket)
      bytes = std::max(bytes, optimizer.Asmuon()
                                  ? orthogonalizeBytes(parameter->shape[0],
                                                       parameter->shape[1])
                                  : adafactorBytes(*parameter));
  return bytes;
}

/// Returns the number of elements that a parameter has of a state of factors.
int64_t countFactors(plan::StateRole role, const UpdateSegment &parameter) {
  Shape shape = {parameter.elements};
  if (parameter.columns != 0)
    shape = {parameter.elements / (parameter.rows * parameter.columns),
             parameter.rows, parameter.columns};
  std::optional<Shape> factors = stateShape(role, shape);
  return factors ? numElements(*factors) : 0;
}

/// Used by the issuing thread only.
class ShardUpdate final : public PreparedOp {
public:
  ShardUpdate(const plan::ShardUpdateT &op, StepState &state)
      : op(op), bucket(*state.plan.buckets[op.bucket]),
        optimizer(state.plan.optimizerOf(op)),
        shard(flat(plan::StateRole::shard, state)),
        master(flat(plan::StateRole::master, state)),
        states(factsOf(optimizer).states) {
    whole.parameter = master.defined() ? master : shard;
    whole.grad = whole.sum = flat(plan::StateRole::grad, state);
    for (plan::StateRole role : states)
      whole.states.push_back(flat(role, state));
    cutParts(state);
    // libtorch's kernel of fused SGD updates f16 and bf16 wrongly on CPUs:
    // whole vectors of parameters get values unrelated to the gradients.
    isWidened = at::isReducedFloatingType(whole.parameter.scalar_type()) &&
                (optimizer.Aslion() || optimizer.Asadamw8bit() ||
                 (optimizer.Assgd() && state.device.is_cpu()));
    // The kernels read gradients of the parameter's type directly.
    bool isFused = (optimizer.Asadamw() || optimizer.Assgd()) && !isWidened &&
                   whole.grad.scalar_type() == whole.parameter.scalar_type();
    gradScale.emplace(op.gradScale, whole.grad, isFused);
    if (optimizer.Asadamw8bit())
      pieces.emplace(whole, isWidened, /*numMemories=*/4, state.pieces);
    else if (isWidened || optimizer.Aslion())
      pieces.emplace(whole, isWidened, /*numMemories=*/2, state.pieces);
    if (optimizer.Asadamw8bit())
      makeCodecs(state);
    if (double base = state.plan.learningRate(); base != 0)
      rateFactor = learningRate(optimizer) / base;
    if (updatesWhole(optimizer))
      scratchBytes = scratchOf(state.plan, op.bucket, optimizer);
  }

  void run(StepState &state) override {
    if (bucket.shardElements == 0 || state.skipsUpdates)
      return;
    gradScale->apply(whole.grad);
    at::Tensor typed = whole.grad.to(whole.parameter.scalar_type());
    UpdateState &update = state.updates[op.bucket];
    update.count.add_(1);
    // The size covers all members of the bucket, so that ranks with other
    // matrices have equal pools.
    if (scratchBytes != 0)
      scratch =
          at::empty({scratchBytes}, whole.grad.options().dtype(at::kByte));
    for (UpdatePart part : parts) {
      if (!typed.is_same(whole.grad))
        part.grad = typed.narrow(0, part.segment.begin, part.segment.elements);
      double rate = state.learningRate * rateFactor * part.segment.lrFactor;
      plan::visit(optimizer, [&](const auto &settings) {
        auto applyTo = [&](const UpdatePart &some) {
          apply(settings, some, rate, update);
        };
        if (pieces)
          pieces->run(part, applyTo);
        else
          applyTo(part);
      });
    }
    scratch.reset();
    if (master.defined())
      shard.copy_(master);
    ++update.number;
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

  /// Cuts the shard into segments, or into parameters, whose factors follow
  /// each other.
  void cutParts(StepState &state) {
    auto cutShard = updatesWhole(optimizer) ? wholeSegments : updateSegments;
    std::vector<int64_t> numFactors(states.size());
    for (const UpdateSegment &of :
         cutShard(state.plan, op.bucket, state.place, weightDecay(optimizer))) {
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
        int64_t factors = countFactors(states[i], of);
        int64_t begin = std::exchange(numFactors[i], numFactors[i] + factors);
        part.states.push_back(whole.states[i].narrow(0, begin, factors));
      }
    }
  }

  void apply(const plan::AdamWT &adamw, const UpdatePart &part, double rate,
             UpdateState &update) const {
    at::_fused_adamw_({part.parameter}, {part.grad}, {part.states[0]},
                      {part.states[1]}, {}, {update.count}, rate, adamw.beta1,
                      adamw.beta2, part.segment.weightDecay, adamw.eps,
                      /*amsgrad=*/false, /*maximize=*/false,
                      gradScale->divisor());
  }

  void apply(const plan::SgdT &sgd, const UpdatePart &part, double rate,
             UpdateState &update) const {
    bool hasMomentum = sgd.momentum != 0;
    at::TensorList buffers =
        hasMomentum ? at::TensorList(part.states[0]) : at::TensorList();
    at::_fused_sgd_({part.parameter}, {part.grad}, buffers,
                    part.segment.weightDecay, sgd.momentum, rate, sgd.dampening,
                    sgd.nesterov, /*maximize=*/false,
                    hasMomentum && update.number == 0, gradScale->divisor());
  }

  /// Updates with Lion (arXiv 2302.06675). Products are rounded before they are
  /// added, so that an element's bits do not depend on its place in a vector.
  void apply(const plan::LionT &lion, const UpdatePart &part, double rate,
             UpdateState &) const {
    at::Tensor update = part.memories[0];
    at::Tensor scaled = part.memories[1];
    auto mix = [&](at::Tensor target, double beta) {
      scaled.copy_(part.grad).mul_(1 - beta);
      target.mul_(beta).add_(scaled);
    };
    mix(update.copy_(part.states[0]), lion.beta1);
    mix(part.states[0], lion.beta2);
    at::Tensor parameter = part.parameter;
    parameter.mul_(1 - rate * part.segment.weightDecay);
    parameter.sub_(update.sign_().mul_(rate));
  }

  /// Updates as torchao.optim.AdamW8bit does, with products that are rounded
  /// before they are added.
  void apply(const plan::AdamW8bitT &adamw, const UpdatePart &part, double rate,
             UpdateState &update) const {
    int64_t elements = part.segment.elements;
    at::Tensor first = part.memories[0], second = part.memories[1];
    at::Tensor scaled = part.memories[2], direction = part.memories[3];
    at::Tensor indices = codeIndices.narrow(0, 0, elements);
    auto step = double(update.number + 1);
    signedCodec->decode(first, part.states[0], part.states[1], indices);
    unsignedCodec->decode(second, part.states[2], part.states[3], indices);
    scaled.copy_(part.grad).mul_(1 - adamw.beta1);
    first.mul_(adamw.beta1).add_(scaled);
    scaled.copy_(part.grad).mul_(part.grad).mul_(1 - adamw.beta2);
    second.mul_(adamw.beta2).add_(scaled);

    at::Tensor parameter = part.parameter;
    parameter.mul_(1 - rate * part.segment.weightDecay);
    scaled.copy_(second).sqrt_();
    scaled.div_(std::sqrt(1 - std::pow(adamw.beta2, step))).add_(adamw.eps);
    direction.copy_(first).div_(scaled);
    direction.mul_(rate / (1 - std::pow(adamw.beta1, step)));
    parameter.sub_(direction);

    signedCodec->encode(part.states[0], part.states[1], first, indices, scaled);
    unsignedCodec->encode(part.states[2], part.states[3], second, indices,
                          scaled);
  }

  /// Updates with Muon, as torch.optim.Muon does. Leaves its direction in the
  /// gradient.
  void apply(const plan::MuonT &muon, const UpdatePart &part, double rate,
             UpdateState &) const {
    std::array<int64_t, 2> shape = {part.segment.rows, part.segment.columns};
    at::Tensor grad = part.grad.view(shape);
    at::Tensor momentum = part.states[0].view(shape);
    momentum.lerp_(grad, 1 - muon.momentum);
    if (muon.nesterov)
      grad.lerp_(momentum, muon.momentum);
    orthogonalize(grad, muon.nesterov ? grad : momentum, muon, scratch);
    at::Tensor parameter = part.parameter.view(shape);
    parameter.mul_(1 - rate * part.segment.weightDecay);
    parameter.add_(grad, -rate * adjustedRate(muon, shape));
  }

  void apply(const plan::AdafactorT &adafactor, const UpdatePart &part,
             double rate, UpdateState &update) const {
    const UpdateSegment &of = part.segment;
    updateAdafactor({part.parameter, part.grad, part.sum, of.rows, of.columns,
                     part.states[0], part.states[1], part.states[2],
                     of.weightDecay},
                    adafactor, rate, update.number + 1, scratch);
  }

  void makeCodecs(StepState &state) {
    signedCodec.emplace(/*isSigned=*/true, state.device);
    unsignedCodec.emplace(/*isSigned=*/false, state.device);
    codeIndices = state.pieces.row(at::kInt, 0);
  }

  const plan::ShardUpdateT &op;
  const plan::BucketT &bucket;
  const plan::OptimizerUnion &optimizer;
  /// The factor on the step's learning rate.
  double rateFactor = 1;
  at::Tensor shard, master;
  /// The roles of the optimizer's states.
  std::span<const plan::StateRole> states;
  /// The whole shard. Its parameter is the memory that the optimizer updates:
  /// the master, if there is one, or the shard.
  UpdatePart whole;
  /// One part, unless parameters of the bucket have different settings.
  std::vector<UpdatePart> parts;
  /// Whether pieces are computed in f32.
  bool isWidened = false;
  std::optional<GradientScale> gradScale;
  /// None if segments are updated as a whole.
  std::optional<PieceUpdate> pieces;
  /// The codecs of moments in 8 bits.
  std::optional<BlockCodec> signedCodec, unsignedCodec;
  at::Tensor codeIndices;
  /// Scratch memory for one matrix at a time, while the update runs.
  int64_t scratchBytes = 0;
  at::Tensor scratch;
};

} // namespace

PreparedOpPtr prepare(const plan::ShardUpdateT &op, StepState &state) {
  return std::make_unique<ShardUpdate>(op, state);
}

} // namespace fcdp
