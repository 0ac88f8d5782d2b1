// SPDX-License-Identifier: Apache-2.0
#include "probe/ProbeAttention.h"

#include "plan/TorchTypes.h"
#include "probe/TryWork.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_scaled_dot_product_cudnn_attention.h>
#include <ATen/ops/_scaled_dot_product_cudnn_attention_backward.h>
#include <ATen/ops/_scaled_dot_product_efficient_attention.h>
#include <ATen/ops/_scaled_dot_product_efficient_attention_backward.h>
#include <ATen/ops/_scaled_dot_product_flash_attention.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_backward.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <algorithm>
#include <array>
#include <cmath>

namespace fcdp::probe {

namespace {

constexpr int64_t kLeastKeys = 128, kMostKeys = 16384;
constexpr int64_t kWideHead = 128, kNarrowHead = 64;
/// The number of keys with which masks and narrow heads are measured.
constexpr int64_t kUsualKeys = 2048;
/// The seconds of a forward pass after which more keys are not tried.
constexpr double kLongAttention = 0.1;

/// The operands of one call, [batch, head, token, depth]. Memory is in the
/// order of tokens, as projections write it.
struct Operands {
  at::Tensor query, key, value, grad;
  /// Not defined unless a mask is given.
  at::Tensor bias;

  /// Returns the operations of the forward pass: two products, of which a
  /// causal kernel computes half.
  double flops() const {
    double square = 2.0 * 2 * double(query.numel()) * double(key.size(2));
    return bias.defined() ? square : square / 2;
  }
};

/// Returns operands with as many heads as fit in memory.
Operands makeOperands(const AttentionProbe &probe, int64_t keys, int64_t depth,
                      bool isMasked) {
  auto options =
      at::TensorOptions(toScalarType(probe.type)).device(probe.device);
  int64_t head = keys * depth * int64_t(byteSize(probe.type));
  int64_t heads = std::max(int64_t(probe.mostBytes) / head, int64_t(1));
  auto make = [&] {
    return at::empty({1, keys, heads, depth}, options)
        .normal_()
        .transpose(1, 2);
  };
  Operands made{make(), make(), make(), make(), {}};
  if (isMasked)
    made.bias =
        at::zeros({1, 1, keys, keys}, options).expand({1, heads, keys, keys});
  return made;
}

/// A forward pass, and the backward pass of its result.
struct Passes {
  Work forward, backward;
};

Passes callFlash(const Operands &in) {
  auto call = [=] {
    return at::_scaled_dot_product_flash_attention(
        in.query, in.key, in.value, /*dropout_p=*/0.0, /*is_causal=*/true);
  };
  auto out = call();
  return {[=] { call(); },
          [=] {
            auto &[result, sums, queries, keys, mostQueries, mostKeys, seed,
                   offset, unused] = out;
            at::_scaled_dot_product_flash_attention_backward_symint(
                in.grad, in.query, in.key, in.value, result, sums, queries,
                keys, mostQueries, mostKeys, 0.0, true, seed, offset);
          }};
}

Passes callCudnn(const Operands &in) {
  auto call = [=] {
    return at::_scaled_dot_product_cudnn_attention(
        in.query, in.key, in.value, /*attn_bias=*/std::nullopt,
        /*compute_log_sumexp=*/true, /*dropout_p=*/0.0, /*is_causal=*/true);
  };
  auto out = call();
  return {[=] { call(); },
          [=] {
            auto &[result, sums, queries, keys, mostQueries, mostKeys, seed,
                   offset, unused] = out;
            at::_scaled_dot_product_cudnn_attention_backward_symint(
                in.grad, in.query, in.key, in.value, result, sums, seed, offset,
                in.bias, queries, keys, mostQueries, mostKeys, 0.0, true);
          }};
}

Passes callEfficient(const Operands &in) {
  bool isCausal = !in.bias.defined();
  std::optional<at::Tensor> bias;
  if (in.bias.defined())
    bias = in.bias;
  auto call = [=] {
    return at::_scaled_dot_product_efficient_attention(
        in.query, in.key, in.value, bias, /*compute_log_sumexp=*/true, 0.0,
        isCausal);
  };
  auto out = call();
  return {[=] { call(); },
          [=] {
            auto &[result, sums, seed, offset] = out;
            at::_scaled_dot_product_efficient_attention_backward(
                in.grad, in.query, in.key, in.value, in.bias, result, sums,
                seed, offset, 0.0, {true, true, true, false}, isCausal);
          }};
}

Passes makePasses(const AttentionProbe &probe, const Operands &in) {
  if (in.bias.defined() || probe.kernel == AttentionKernel::Efficient)
    return callEfficient(in);
  return probe.kernel == AttentionKernel::Cudnn ? callCudnn(in) : callFlash(in);
}

/// The operations of the backward pass relative to those of the forward pass:
/// five products, one of which repeats the forward pass.
constexpr double kBackwardShare = 2.5;

struct PassRates {
  double forward, backward, secondsOfForward;
};

class AttentionTimer {
public:
  AttentionTimer(const AttentionProbe &probe, const DeviceTimer &time,
                 const Work &before, double gap)
      : probe(probe), time(time), before(before), gap(gap) {}

  /// Returns the operations per second of both passes.
  PassRates measure(int64_t keys, int64_t depth, bool isMasked) const {
    Operands in = makeOperands(probe, keys, depth, isMasked);
    Passes passes = makePasses(probe, in);
    double forward = withoutGap(timeEach(time, before, 1, passes.forward), gap),
           backward =
               withoutGap(timeEach(time, before, 1, passes.backward), gap);
    return {in.flops() / forward, kBackwardShare * in.flops() / backward,
            forward};
  }

private:
  const AttentionProbe &probe;
  const DeviceTimer &time;
  const Work &before;
  double gap;
};

/// Returns the factor between the rates of two kinds of calls. A description
/// has one factor for both passes.
double compare(const PassRates &rates, const PassRates &usual) {
  return std::min(std::sqrt(rates.forward / usual.forward * rates.backward /
                            usual.backward),
                  1.0);
}

} // namespace

std::string whyNoAttention(const AttentionProbe &probe) {
  at::NoGradGuard noGrad;
  AttentionProbe small = probe;
  small.mostBytes = 0;
  return tryWork([&] {
    for (bool isMasked : {false, true})
      makePasses(small, makeOperands(small, kLeastKeys, kWideHead, isMasked))
          .backward();
  });
}

AttentionFigures measureAttention(const AttentionProbe &probe,
                                  const DeviceTimer &time, const Work &before,
                                  double gap) {
  at::NoGradGuard noGrad;
  AttentionTimer timer(probe, time, before, gap);
  AttentionFigures found;
  found.type = probe.type;
  PassRates usual{};
  int64_t usualKeys = 0;
  for (int64_t keys = kLeastKeys; keys <= kMostKeys; keys *= 2) {
    PassRates rates = timer.measure(keys, kWideHead, /*isMasked=*/false);
    found.forward.push_back({double(keys), rates.forward});
    found.backward.push_back({double(keys), rates.backward});
    if (keys <= kUsualKeys) {
      usual = rates;
      usualKeys = keys;
    }
    if (rates.secondsOfForward > kLongAttention)
      break;
  }
  found.narrow = compare(timer.measure(usualKeys, kNarrowHead, false), usual);
  found.masked = compare(timer.measure(usualKeys, kWideHead, true), usual);
  return found;
}

} // namespace fcdp::probe
