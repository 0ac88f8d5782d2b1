// SPDX-License-Identifier: Apache-2.0
//
// Runs the optimizer on this rank's shard, with PyTorch's own fused kernels.
#include "core/Pieces.h"
#include "operators/PreparedOp.h"
#include "optimizers/Adafactor.h"
#include "optimizers/BlockStates.h"
#include "optimizers/GradientScale.h"
#include "optimizers/NewtonSchulz.h"
#include "optimizers/UpdateSegments.h"

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

/// A segment of the shard and of its states. States that the optimizer does not
/// have are undefined tensors.
struct Part {
  UpdateSegment segment;
  at::Tensor parameter, grad, expAvg, expAvgSq, momentumBuffer;
  at::Tensor expAvgCode, expAvgSqCode;
  /// The scales of moments in 8 bits, one for each block.
  at::Tensor expAvgScale, expAvgSqScale;
  /// The second moments of one parameter, with Adafactor.
  at::Tensor rowVar, colVar, variance;
};

/// Returns elements [begin, begin + elements) of `whole`.
Part cut(const Part &whole, int64_t begin, int64_t elements) {
  Part part = whole;
  part.segment.begin += begin;
  part.segment.elements = elements;
  for (at::Tensor *tensor :
       {&part.parameter, &part.grad, &part.expAvg, &part.expAvgSq,
        &part.momentumBuffer, &part.expAvgCode, &part.expAvgSqCode})
    if (tensor->defined())
      *tensor = tensor->narrow(0, begin, elements);
  for (at::Tensor *tensor : {&part.expAvgScale, &part.expAvgSqScale})
    if (tensor->defined())
      *tensor = tensor->narrow(0, begin / kStateBlock, elements / kStateBlock);
  return part;
}

bool updatesWhole(const plan::OptimizerUnion &optimizer) {
  return optimizer.Asmuon() || optimizer.Asadafactor();
}

/// Returns the length of a piece, a multiple of all vector lengths. On a CPU a
/// piece fits in the caches, and on a GPU it is long enough to hide its
/// launches.
int64_t pieceElementsOn(at::Device device) {
  return pieceElements(device.is_cpu() ? 1 << 16 : 1 << 20);
}

/// The memory for one piece of each kind.
enum PieceMemory {
  kParameter,
  kGrad,
  kState,
  kUpdate,
  kScaled,
  kDirection,
  kNumMemories
};

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

/// Used by the issuing thread only.
class ShardUpdate final : public PreparedOp {
public:
  ShardUpdate(const plan::ShardUpdateT &op, StepState &state)
      : op(op), bucket(*state.plan.buckets[op.bucket]),
        optimizer(state.plan.optimizerOf(op)),
        shard(flat(plan::StateRole::shard, state)),
        master(flat(plan::StateRole::master, state)),
        whole{{},
              master.defined() ? master : shard,
              flat(plan::StateRole::grad, state),
              flat(plan::StateRole::exp_avg, state),
              flat(plan::StateRole::exp_avg_sq, state),
              flat(plan::StateRole::momentum_buffer, state),
              flat(plan::StateRole::exp_avg_code, state),
              flat(plan::StateRole::exp_avg_sq_code, state),
              flat(plan::StateRole::exp_avg_scale, state),
              flat(plan::StateRole::exp_avg_sq_scale, state),
              flat(plan::StateRole::row_var, state),
              flat(plan::StateRole::col_var, state),
              flat(plan::StateRole::variance, state)} {
    auto cutShard = updatesWhole(optimizer) ? wholeSegments : updateSegments;
    for (const UpdateSegment &segment :
         cutShard(state.plan, op.bucket, state.place, weightDecay(optimizer))) {
      parts.push_back(cut(whole, segment.begin, segment.elements));
      parts.back().segment = segment;
    }
    if (optimizer.Asadafactor())
      cutFactors();
    // libtorch's kernel of fused SGD updates f16 and bf16 wrongly on CPUs:
    // whole vectors of parameters get values unrelated to the gradients.
    isWidened = at::isReducedFloatingType(whole.parameter.scalar_type()) &&
                (optimizer.Aslion() || optimizer.Asadamw8bit() ||
                 (optimizer.Assgd() && state.device.is_cpu()));
    // The kernels read gradients of the parameter's type directly.
    bool isFused = (optimizer.Asadamw() || optimizer.Assgd()) && !isWidened &&
                   whole.grad.scalar_type() == whole.parameter.scalar_type();
    gradScale.emplace(op.gradScale, whole.grad, isFused);
    if (isWidened || optimizer.Aslion() || optimizer.Asadamw8bit())
      pieces = makePieces(state);
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
    for (Part part : parts) {
      if (!typed.is_same(whole.grad))
        part.grad = typed.narrow(0, part.segment.begin, part.segment.elements);
      double rate = state.learningRate * rateFactor * part.segment.lrFactor;
      plan::visit(optimizer, [&](const auto &settings) {
        auto applyTo = [&](const Part &some) {
          apply(settings, some, rate, update);
        };
        if (pieces.defined())
          applyToPieces(part, applyTo);
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

  void apply(const plan::AdamWT &adamw, const Part &part, double rate,
             UpdateState &update) const {
    at::_fused_adamw_({part.parameter}, {part.grad}, {part.expAvg},
                      {part.expAvgSq}, {}, {update.count}, rate, adamw.beta1,
                      adamw.beta2, part.segment.weightDecay, adamw.eps,
                      /*amsgrad=*/false, /*maximize=*/false,
                      gradScale->divisor());
  }

  void apply(const plan::SgdT &sgd, const Part &part, double rate,
             UpdateState &update) const {
    bool hasMomentum = sgd.momentum != 0;
    at::TensorList buffers =
        hasMomentum ? at::TensorList(part.momentumBuffer) : at::TensorList();
    at::_fused_sgd_({part.parameter}, {part.grad}, buffers,
                    part.segment.weightDecay, sgd.momentum, rate, sgd.dampening,
                    sgd.nesterov, /*maximize=*/false,
                    hasMomentum && update.number == 0, gradScale->divisor());
  }

  /// Updates with Lion (arXiv 2302.06675). Products are rounded before they are
  /// added, so that an element's bits do not depend on its place in a vector.
  void apply(const plan::LionT &lion, const Part &part, double rate,
             UpdateState &) const {
    at::Tensor update = memory(kUpdate, part.segment.elements);
    at::Tensor scaled = memory(kScaled, part.segment.elements);
    auto mix = [&](at::Tensor target, double beta) {
      scaled.copy_(part.grad).mul_(1 - beta);
      target.mul_(beta).add_(scaled);
    };
    mix(update.copy_(part.expAvg), lion.beta1);
    mix(part.expAvg, lion.beta2);
    at::Tensor parameter = part.parameter;
    parameter.mul_(1 - rate * part.segment.weightDecay);
    parameter.sub_(update.sign_().mul_(rate));
  }

  /// Updates as torchao.optim.AdamW8bit does, with products that are rounded
  /// before they are added.
  void apply(const plan::AdamW8bitT &adamw, const Part &part, double rate,
             UpdateState &update) const {
    int64_t elements = part.segment.elements;
    at::Tensor first = memory(kState, elements);
    at::Tensor second = memory(kUpdate, elements);
    at::Tensor scaled = memory(kScaled, elements);
    at::Tensor indices = codeIndices.narrow(0, 0, elements);
    auto step = double(update.number + 1);
    signedCodec->decode(first, part.expAvgCode, part.expAvgScale, indices);
    unsignedCodec->decode(second, part.expAvgSqCode, part.expAvgSqScale,
                          indices);
    scaled.copy_(part.grad).mul_(1 - adamw.beta1);
    first.mul_(adamw.beta1).add_(scaled);
    scaled.copy_(part.grad).mul_(part.grad).mul_(1 - adamw.beta2);
    second.mul_(adamw.beta2).add_(scaled);

    at::Tensor parameter = part.parameter;
    parameter.mul_(1 - rate * part.segment.weightDecay);
    scaled.copy_(second).sqrt_();
    scaled.div_(std::sqrt(1 - std::pow(adamw.beta2, step))).add_(adamw.eps);
    at::Tensor direction = memory(kDirection, elements);
    direction.copy_(first).div_(scaled);
    direction.mul_(rate / (1 - std::pow(adamw.beta1, step)));
    parameter.sub_(direction);

    signedCodec->encode(part.expAvgCode, part.expAvgScale, first, indices,
                        scaled);
    unsignedCodec->encode(part.expAvgSqCode, part.expAvgSqScale, second,
                          indices, scaled);
  }

  /// Updates with Muon, as torch.optim.Muon does. Leaves its direction in the
  /// gradient.
  void apply(const plan::MuonT &muon, const Part &part, double rate,
             UpdateState &) const {
    std::array<int64_t, 2> shape = {part.segment.rows, part.segment.columns};
    at::Tensor grad = part.grad.view(shape);
    at::Tensor momentum = part.momentumBuffer.view(shape);
    momentum.lerp_(grad, 1 - muon.momentum);
    if (muon.nesterov)
      grad.lerp_(momentum, muon.momentum);
    orthogonalize(grad, muon.nesterov ? grad : momentum, muon, scratch);
    at::Tensor parameter = part.parameter.view(shape);
    parameter.mul_(1 - rate * part.segment.weightDecay);
    parameter.add_(grad, -rate * adjustedRate(muon, shape));
  }

  /// Gives each parameter its second moments, which follow each other.
  void cutFactors() {
    int64_t row = 0, column = 0, other = 0;
    auto next = [](const at::Tensor &from, int64_t &begin, int64_t elements) {
      return from.narrow(0, std::exchange(begin, begin + elements), elements);
    };
    for (Part &part : parts) {
      const UpdateSegment &of = part.segment;
      bool isFactored = of.columns != 0;
      part.rowVar =
          next(whole.rowVar, row, isFactored ? of.elements / of.columns : 0);
      part.colVar =
          next(whole.colVar, column, isFactored ? of.elements / of.rows : 0);
      part.variance = next(whole.variance, other, isFactored ? 0 : of.elements);
    }
  }

  void apply(const plan::AdafactorT &adafactor, const Part &part, double rate,
             UpdateState &update) const {
    const UpdateSegment &of = part.segment;
    updateAdafactor({part.parameter, part.grad,
                     whole.grad.narrow(0, of.begin, of.elements), of.rows,
                     of.columns, part.rowVar, part.colVar, part.variance,
                     of.weightDecay},
                    adafactor, rate, update.number + 1, scratch);
  }

  /// Returns the step's memory for pieces, with a row for each kind.
  at::Tensor makePieces(StepState &state) const {
    at::ScalarType type =
        isWidened ? at::kFloat : whole.parameter.scalar_type();
    at::Tensor &rows = state.pieces[type];
    if (!rows.defined())
      rows = at::empty({kNumMemories, pieceElementsOn(state.device)},
                       whole.parameter.options().dtype(type));
    return rows;
  }

  void makeCodecs(StepState &state) {
    signedCodec.emplace(/*isSigned=*/true, state.device);
    unsignedCodec.emplace(/*isSigned=*/false, state.device);
    at::Tensor &indices = state.pieces[at::kInt];
    if (!indices.defined())
      indices = at::empty({pieceElementsOn(state.device)},
                          whole.grad.options().dtype(at::kInt));
    codeIndices = indices;
  }

  at::Tensor memory(PieceMemory kind, int64_t elements) const {
    return pieces.select(0, kind).narrow(0, 0, elements);
  }

  /// Calls `update` with each piece of a segment.
  template <typename Update>
  void applyToPieces(const Part &part, Update update) const {
    forEachPiece(part.segment.elements, pieces.size(1),
                 [&](int64_t begin, int64_t elements) {
                   Part piece = cut(part, begin, elements);
                   if (isWidened)
                     updateWidened(piece, update);
                   else
                     update(piece);
                 });
  }

  /// Updates a piece of f16 or bf16 in f32, and rounds each result once, as the
  /// kernel of AdamW does.
  template <typename Update>
  void updateWidened(const Part &piece, Update update) const {
    auto widen = [&](PieceMemory kind, const at::Tensor &narrow) {
      return narrow.defined()
                 ? memory(kind, piece.segment.elements).copy_(narrow)
                 : at::Tensor();
    };
    Part wide = piece;
    wide.parameter = widen(kParameter, piece.parameter);
    wide.grad = widen(kGrad, piece.grad);
    if (piece.expAvgCode.defined()) {
      update(wide);
      piece.parameter.copy_(wide.parameter);
      return;
    }
    // Any other optimizer that is updated in pieces has one state.
    at::Tensor Part::*state =
        piece.expAvg.defined() ? &Part::expAvg : &Part::momentumBuffer;
    wide.*state = widen(kState, piece.*state);
    update(wide);
    piece.parameter.copy_(wide.parameter);
    if ((piece.*state).defined())
      (piece.*state).copy_(wide.*state);
  }

  const plan::ShardUpdateT &op;
  const plan::BucketT &bucket;
  const plan::OptimizerUnion &optimizer;
  /// The factor on the step's learning rate.
  double rateFactor = 1;
  at::Tensor shard, master;
  /// The whole shard. Its parameter is the memory that the optimizer updates:
  /// the master, if there is one, or the shard.
  Part whole;
  /// One part, unless parameters of the bucket have different settings.
  std::vector<Part> parts;
  /// Whether pieces are computed in f32.
  bool isWidened = false;
  std::optional<GradientScale> gradScale;
  /// Undefined if segments are updated as a whole.
  at::Tensor pieces;
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
