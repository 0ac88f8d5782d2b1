// SPDX-License-Identifier: Apache-2.0
//
// Implements outer steps (DiLoCo, arXiv 2311.08105). Their states are in host
// memory. They are computed in pieces, in memory of the device.
#include "core/Pieces.h"
#include "operators/OuterStates.h"
#include "operators/PreparedOp.h"
#include "operators/StartStates.h"

#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/empty.h>

namespace fcdp {

namespace {

/// The states of a bucket, and memory of the device for pieces of them.
class OuterPieces : public OuterStates {
public:
  OuterPieces(uint32_t bucket, StepState &state) : OuterStates(bucket, state) {
    at::Tensor &rows = state.hostPieces;
    if (!rows.defined())
      // A piece of each tensor fits in the caches of a CPU.
      rows = at::empty({3, pieceElements(1 << 16)},
                       at::TensorOptions(at::kFloat).device(state.device));
    pieces = rows;
  }

  /// Calls `visit(begin, elements)` with each piece of `elements` elements.
  template <typename Visit>
  void forEach(int64_t elements, Visit visit) const {
    forEachPiece(elements, pieces.size(1), visit);
  }
  at::Tensor piece(int64_t row, int64_t elements) const {
    return pieces.select(0, row).narrow(0, 0, elements);
  }

private:
  at::Tensor pieces;
};

class OuterDifference final : public PreparedOp {
public:
  OuterDifference(const plan::OuterDifferenceT &op, StepState &state)
      : states(op.bucket, state),
        out(state.flat(op.out, int64_t(op.elements), toDType(op.type))) {}

  void run(StepState &) override {
    states.forEach(out.numel(), [&](int64_t begin, int64_t elements) {
      at::Tensor difference = states.piece(0, elements);
      at::Tensor own = states.piece(1, elements);
      difference.copy_(states.outer.narrow(0, begin, elements));
      own.copy_(states.own().narrow(0, begin, elements));
      out.narrow(0, begin, elements).copy_(difference.sub_(own));
    });
  }

private:
  const OuterPieces states;
  const at::Tensor out;
};

class OuterUpdate final : public PreparedOp {
public:
  OuterUpdate(const plan::OuterUpdateT &op, StepState &state)
      : states(op.bucket, state), settings(*state.plan.outer), scale(op.scale),
        in(state.flat(op.in, int64_t(op.elements), toDType(op.type))) {}

  void run(StepState &) override {
    states.forEach(in.numel(), [&](int64_t begin, int64_t elements) {
      at::Tensor gradient = states.piece(0, elements);
      gradient.copy_(in.narrow(0, begin, elements)).mul_(scale);
      update(gradient, begin, elements);
    });
  }

private:
  void update(const at::Tensor &gradient, int64_t begin,
              int64_t elements) const {
    auto cut = [&](const at::Tensor &whole) {
      return whole.narrow(0, begin, elements);
    };
    at::Tensor outer = states.piece(1, elements);
    outer.copy_(cut(states.outer));
    at::Tensor momentum;
    if (states.momentum.defined())
      momentum = states.piece(2, elements).copy_(cut(states.momentum));
    at::TensorList buffers =
        momentum.defined() ? at::TensorList(momentum) : at::TensorList();
    // A momentum that starts as zeros equals the first gradient after its first
    // step, as in PyTorch.
    at::_fused_sgd_({outer}, {gradient}, buffers, /*weight_decay=*/0,
                    settings.momentum, settings.lr, /*dampening=*/0,
                    settings.nesterov, /*maximize=*/false,
                    /*is_first_step=*/false);
    cut(states.outer).copy_(outer);
    if (momentum.defined())
      cut(states.momentum).copy_(momentum);
    if (states.master.defined())
      cut(states.master).copy_(outer);
    cut(states.shard).copy_(outer);
  }

  const OuterPieces states;
  const plan::OuterT &settings;
  const double scale;
  const at::Tensor in;
};

} // namespace

void startStates(StepState &state, const std::set<plan::StateRole> &kept) {
  if (!state.plan.outer || kept.count(plan::StateRole::outer))
    return;
  for (uint32_t bucket = 0; bucket < state.plan.buckets.size(); ++bucket)
    if (OuterStates states(bucket, state); states.outer.defined())
      states.outer.copy_(states.own());
}

PreparedOpPtr prepare(const plan::OuterDifferenceT &op, const char *,
                      StepState &state) {
  return std::make_unique<OuterDifference>(op, state);
}

PreparedOpPtr prepare(const plan::OuterUpdateT &op, const char *,
                      StepState &state) {
  return std::make_unique<OuterUpdate>(op, state);
}

std::optional<uint64_t> countBytes(const plan::OuterDifferenceT &,
                                   const StepPlan &) {
  return {};
}

std::optional<uint64_t> countBytes(const plan::OuterUpdateT &,
                                   const StepPlan &) {
  return {};
}

} // namespace fcdp
