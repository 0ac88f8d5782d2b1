// SPDX-License-Identifier: Apache-2.0
//
// The attention operators that CUDA alone has, by the CPU's kernels. Results
// have the order in memory of CUDA's kernels
// (ATen/native/transformers/cuda/attention.cu).

#include "EmulatedTorch.h"
#include "fake/Machine.h"

#include <ATen/ops/_flash_attention_forward_ops.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

namespace fcdp::emulated {
namespace {

using at::Tensor;
using Forward = std::tuple<Tensor, Tensor>;

/// The memory-efficient kernel pads the rows of its log-sum-exp to this many.
constexpr int64_t kRows = 32;

std::optional<DeviceView> viewOf(const std::optional<Tensor> &tensor) {
  return tensor && tensor->defined() ? std::optional(DeviceView(*tensor))
                                     : std::nullopt;
}

std::optional<Tensor> onHost(const std::optional<DeviceView> &view) {
  return view ? std::optional(view->onHost()) : std::nullopt;
}

/// [batch, heads, tokens, depth] that is in memory token by token.
Tensor makeTokenMajor(at::IntArrayRef shape, const at::TensorOptions &options) {
  return at::empty({shape[0], shape[2], shape[1], shape[3]}, options)
      .transpose(1, 2);
}

Tensor number(const Tensor &like, at::ScalarType type, at::IntArrayRef shape) {
  Tensor made = at::empty(shape, like.options().dtype(type));
  return made.zero_();
}

/// A number of the random state. As in libtorch, the host has it unless the
/// stream is captured.
Tensor randomState() {
  bool isCaptured = fake::isCaptured(currentStream());
  Tensor made = at::empty({}, at::TensorOptions(at::kLong).device(
                                  isCaptured ? at::kCUDA : at::kCPU));
  return made.zero_();
}

/// Returns the seconds of the kernels of attention, of which the forward pass
/// has 2 products and the backward pass 5. A causal kernel computes half.
double secondsOf(const Tensor &query, const Tensor &key, bool isBackward,
                 bool isMasked, bool isCausal) {
  auto &machine = fake::Machine::instance();
  std::lock_guard<std::recursive_mutex> lock(machine.mutex);
  if (!machine.speed)
    return 0;
  TORCH_CHECK(query.scalar_type() != at::kHalf ||
                  !machine.speed->lacks("attention_f16"),
              "No available kernel. Aborting execution.");
  double products = (isBackward ? 5 : 2) * (isCausal ? 0.5 : 1);
  double flops = products * 2 * double(query.numel()) * double(key.size(2));
  return machine.speed->first(isBackward ? "attention's backward pass"
                                         : "attention") +
         machine.speed->attention(flops, query.size(3), isBackward, isMasked);
}

/// Enqueues the forward kernel.
void enqueueForward(const Tensor &query, const Tensor &key, const Tensor &value,
                    const std::optional<Tensor> &bias, const Tensor &out,
                    const Tensor &sums, bool isCausal,
                    std::optional<double> scale) {
  enqueue(
      [query = DeviceView(query), key = DeviceView(key),
       value = DeviceView(value), bias = viewOf(bias), out = DeviceView(out),
       sums = DeviceView(sums), isCausal, scale] {
        auto [result, logSumExp] =
            at::_scaled_dot_product_flash_attention_for_cpu(
                query.onHost(), key.onHost(), value.onHost(), 0.0, isCausal,
                onHost(bias), scale);
        out.onHost().copy_(result);
        Tensor rows = sums.onHost();
        if (rows.numel() == 0)
          return;
        int64_t tokens = logSumExp.size(2);
        rows.fill_(std::numeric_limits<float>::infinity());
        rows.narrow(2, 0, tokens).copy_(logSumExp);
      },
      secondsOf(query, key, false, bias && bias->defined(), isCausal));
}

/// Enqueues the backward kernel. `sums` may have more rows than there are
/// queries.
void enqueueBackward(const Tensor &grad, const Tensor &query, const Tensor &key,
                     const Tensor &value, const std::optional<Tensor> &bias,
                     const Tensor &out, const Tensor &sums, bool isCausal,
                     std::optional<double> scale,
                     const std::array<Tensor, 3> &grads) {
  enqueue(
      [grad = DeviceView(grad), query = DeviceView(query),
       key = DeviceView(key), value = DeviceView(value), bias = viewOf(bias),
       out = DeviceView(out), sums = DeviceView(sums), isCausal, scale,
       gradQuery = DeviceView(grads[0]), gradKey = DeviceView(grads[1]),
       gradValue = DeviceView(grads[2])] {
        Tensor queries = query.onHost();
        auto [forQuery, forKey, forValue] =
            at::_scaled_dot_product_flash_attention_for_cpu_backward(
                grad.onHost(), queries, key.onHost(), value.onHost(),
                out.onHost(),
                sums.onHost().narrow(2, 0, queries.size(2)).contiguous(), 0.0,
                isCausal, onHost(bias), scale);
        gradQuery.onHost().copy_(forQuery);
        gradKey.onHost().copy_(forKey);
        gradValue.onHost().copy_(forValue);
      },
      secondsOf(query, key, true, bias && bias->defined(), isCausal));
}

} // namespace

std::tuple<Tensor, Tensor, Tensor, Tensor>
efficientAttention(const Tensor &query, const Tensor &key, const Tensor &value,
                   const std::optional<Tensor> &bias, bool computesSums,
                   double dropout, bool isCausal, std::optional<double> scale) {
  TORCH_CHECK(dropout == 0, "dropout in attention is not emulated");
  Tensor out = makeTokenMajor(query.sizes(), query.options());
  int64_t rows = computesSums ? (query.size(2) + kRows - 1) / kRows * kRows : 0;
  Tensor sums = at::empty({query.size(0), query.size(1), rows},
                          query.options().dtype(at::kFloat));
  enqueueForward(query, key, value, bias, out, sums, isCausal, scale);
  return {out, sums, randomState(), randomState()};
}

std::tuple<Tensor, Tensor, Tensor, Tensor> efficientAttentionBackward(
    const Tensor &grad, const Tensor &query, const Tensor &key,
    const Tensor &value, const Tensor &bias, const Tensor &out,
    const Tensor &sums, const Tensor &, const Tensor &, double,
    std::array<bool, 4> needed, bool isCausal, std::optional<double> scale) {
  TORCH_CHECK(!needed[3], "the gradient of a bias is not emulated");
  std::array<Tensor, 3> grads;
  const Tensor *inputs[] = {&query, &key, &value};
  for (size_t i = 0; i < 3; ++i)
    grads[i] = makeTokenMajor(inputs[i]->sizes(), query.options());
  enqueueBackward(grad, query, key, value, bias, out, sums, isCausal, scale,
                  grads);
  return {grads[0], grads[1], grads[2], Tensor()};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, c10::SymInt, c10::SymInt, Tensor,
           Tensor, Tensor>
flashAttention(const Tensor &query, const Tensor &key, const Tensor &value,
               double dropout, bool isCausal, bool,
               std::optional<double> scale) {
  TORCH_CHECK(dropout == 0, "dropout in attention is not emulated");
  Tensor out = at::empty_like(query);
  Tensor sums = at::empty({query.size(0), query.size(1), query.size(2)},
                          query.options().dtype(at::kFloat));
  enqueueForward(query, key, value, std::nullopt, out, sums, isCausal, scale);
  return {out,
          sums,
          Tensor(),
          Tensor(),
          query.size(2),
          key.size(2),
          number(query, at::kUInt64, {2}),
          number(query, at::kUInt64, {}),
          at::empty({0}, query.options())};
}

std::tuple<Tensor, Tensor, Tensor> flashAttentionBackward(
    const Tensor &grad, const Tensor &query, const Tensor &key,
    const Tensor &value, const Tensor &out, const Tensor &sums, const Tensor &,
    const Tensor &, c10::SymInt, c10::SymInt, double, bool isCausal,
    const Tensor &, const Tensor &, std::optional<double> scale) {
  std::array<Tensor, 3> grads = {at::empty_like(query), at::empty_like(key),
                                 at::empty_like(value)};
  enqueueBackward(grad, query, key, value, std::nullopt, out, sums, isCausal,
                  scale, grads);
  return {grads[0], grads[1], grads[2]};
}

namespace {

/// Sequences of several lengths in [tokens, heads, depth], of which there are
/// as many as the bounds have room for. Some may be empty.
class Sequences {
public:
  Sequences(const std::optional<Tensor> &queries,
            const std::optional<Tensor> &keys, const c10::SymInt &longest)
      : longest(longest.expect_int()) {
    TORCH_CHECK(queries && keys && queries->is_same(*keys) &&
                    queries->is_cuda() && queries->is_contiguous() &&
                    queries->dim() == 1 && queries->size(0) > 1 &&
                    queries->scalar_type() == at::kInt,
                "expected int32 bounds, the same for queries and keys");
    bounds.emplace(*queries);
  }
  /// Calls `compute` with the first token and the length of each sequence. For
  /// work of a stream only.
  template <typename Compute>
  void forEach(int64_t tokens, const Compute &compute) const {
    Tensor host = bounds->onHost();
    const int32_t *at = host.const_data_ptr<int32_t>();
    int64_t count = host.size(0) - 1;
    TORCH_CHECK(at[0] == 0 && at[count] == tokens, "expected bounds from 0 to ",
                tokens, ", got ", at[0], " and ", at[count]);
    for (int64_t i = 0; i < count; ++i) {
      int64_t length = at[i + 1] - at[i];
      TORCH_CHECK(length >= 0 && length <= longest,
                  "expected a sequence of 0 to ", longest, " tokens, got ",
                  length);
      if (length > 0)
        compute(at[i], length);
    }
  }
  int64_t greatest() const { return longest; }

private:
  std::optional<DeviceView> bounds;
  int64_t longest;
};

/// Returns the sequence as a batch of one [1, heads, tokens, depth].
Tensor cut(const Tensor &tensor, int64_t begin, int64_t length) {
  return tensor.narrow(0, begin, length).transpose(0, 1).unsqueeze(0);
}

double secondsOf(const Tensor &query, const Sequences &sequences,
                 bool isBackward) {
  Tensor longest = at::empty({1, 1, sequences.greatest(), query.size(2)},
                             query.options().device(at::kMeta));
  return secondsOf(query.unsqueeze(0), longest, isBackward, /*isMasked=*/false,
                   /*isCausal=*/true);
}

void checkSequences(const Tensor &query, const Tensor &key, double dropout,
                    bool isCausal) {
  TORCH_CHECK(dropout == 0 && isCausal && query.dim() == 3 &&
                  query.scalar_type() != at::kFloat && query.size(2) % 8 == 0 &&
                  query.size(2) <= 256 && query.stride(2) == 1 &&
                  query.size(1) % key.size(1) == 0 && key.stride(2) == 1,
              "flash attention over sequences that are not causal [tokens, "
              "heads, depth] in half precision is not emulated");
}

} // namespace

/// `Newer` are arguments that newer versions of PyTorch have, for caches of
/// generated text.
template <typename... Newer>
std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor>
sequencesAttention(const Tensor &query, const Tensor &key, const Tensor &value,
                   const std::optional<Tensor> &queries,
                   const std::optional<Tensor> &keys, c10::SymInt longest,
                   c10::SymInt, double dropout, bool isCausal, bool,
                   std::optional<double> scale, std::optional<c10::SymInt>,
                   std::optional<c10::SymInt>, const std::optional<Tensor> &,
                   const std::optional<Tensor> &, Newer...) {
  checkSequences(query, key, dropout, isCausal);
  Sequences sequences(queries, keys, longest);
  Tensor out = at::empty_like(query);
  Tensor sums = at::empty({query.size(1), query.size(0)},
                          query.options().dtype(at::kFloat));
  enqueue(
      [query = DeviceView(query), key = DeviceView(key),
       value = DeviceView(value), out = DeviceView(out),
       sums = DeviceView(sums), sequences, scale] {
        Tensor q = query.onHost(), k = key.onHost(), v = value.onHost(),
               results = out.onHost(), rows = sums.onHost();
        sequences.forEach(q.size(0), [&](int64_t begin, int64_t length) {
          auto [result, logSumExp] =
              at::_scaled_dot_product_flash_attention_for_cpu(
                  cut(q, begin, length), cut(k, begin, length),
                  cut(v, begin, length), 0.0, /*is_causal=*/true, std::nullopt,
                  scale);
          cut(results, begin, length).copy_(result);
          rows.narrow(1, begin, length).copy_(logSumExp.squeeze(0));
        });
      },
      secondsOf(query, sequences, /*isBackward=*/false));
  return {out, sums, number(query, at::kUInt64, {2}),
          number(query, at::kUInt64, {}), at::empty({0}, query.options())};
}

std::tuple<Tensor, Tensor, Tensor> sequencesAttentionBackward(
    const Tensor &grad, const Tensor &query, const Tensor &key,
    const Tensor &value, const Tensor &out, const Tensor &sums,
    const Tensor &queries, const Tensor &keys, c10::SymInt longest, c10::SymInt,
    double dropout, bool isCausal, const Tensor &, const Tensor &,
    std::optional<double> scale, std::optional<c10::SymInt>,
    std::optional<c10::SymInt>) {
  checkSequences(query, key, dropout, isCausal);
  Sequences sequences(queries, keys, longest);
  std::array<Tensor, 3> grads = {at::empty_like(query), at::empty_like(key),
                                 at::empty_like(value)};
  enqueue(
      [grad = DeviceView(grad), query = DeviceView(query),
       key = DeviceView(key), value = DeviceView(value), out = DeviceView(out),
       sums = DeviceView(sums), gradQuery = DeviceView(grads[0]),
       gradKey = DeviceView(grads[1]), gradValue = DeviceView(grads[2]),
       sequences, scale] {
        Tensor q = query.onHost();
        sequences.forEach(q.size(0), [&](int64_t begin, int64_t length) {
          auto part = [&](const DeviceView &whole) {
            return cut(whole.onHost(), begin, length);
          };
          auto [ofQuery, ofKey, ofValue] =
              at::_scaled_dot_product_flash_attention_for_cpu_backward(
                  part(grad), part(query), part(key), part(value), part(out),
                  sums.onHost().narrow(1, begin, length).unsqueeze(0), 0.0,
                  /*is_causal=*/true, std::nullopt, scale);
          part(gradQuery).copy_(ofQuery);
          part(gradKey).copy_(ofKey);
          part(gradValue).copy_(ofValue);
        });
      },
      secondsOf(query, sequences, /*isBackward=*/true));
  return {grads[0], grads[1], grads[2]};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, c10::SymInt, c10::SymInt, Tensor,
           Tensor, Tensor>
cudnnAttention(const Tensor &query, const Tensor &key, const Tensor &value,
               const std::optional<Tensor> &bias, bool, double dropout,
               bool isCausal, bool, std::optional<double> scale) {
  TORCH_CHECK(dropout == 0, "dropout in attention is not emulated");
  Tensor out = at::empty_like(query);
  Tensor sums = at::empty({query.size(0), query.size(1), query.size(2), 1},
                          query.options().dtype(at::kFloat));
  enqueueForward(query, key, value, bias, out, sums.squeeze(-1), isCausal,
                 scale);
  return {out,         sums,          Tensor(),      Tensor(), query.size(2),
          key.size(2), randomState(), randomState(), Tensor()};
}

std::tuple<Tensor, Tensor, Tensor>
cudnnAttentionBackward(const Tensor &grad, const Tensor &query,
                       const Tensor &key, const Tensor &value,
                       const Tensor &out, const Tensor &sums, const Tensor &,
                       const Tensor &, const Tensor &bias, const Tensor &,
                       const Tensor &, c10::SymInt, c10::SymInt, double,
                       bool isCausal, std::optional<double> scale) {
  std::array<Tensor, 3> grads = {at::empty_like(query), at::empty_like(key),
                                 at::empty_like(value)};
  enqueueBackward(grad, query, key, value,
                  bias.defined() ? std::optional(bias) : std::nullopt, out,
                  sums.squeeze(-1), isCausal, scale, grads);
  return {grads[0], grads[1], grads[2]};
}

TORCH_LIBRARY_IMPL(aten, CUDA, library) {
  constexpr at::_ops::_flash_attention_forward::schema *forward =
      &sequencesAttention;
  library.impl("_flash_attention_forward", TORCH_FN(forward));
  library.impl("_flash_attention_backward",
               TORCH_FN(sequencesAttentionBackward));
  library.impl("_scaled_dot_product_cudnn_attention", TORCH_FN(cudnnAttention));
  library.impl("_scaled_dot_product_cudnn_attention_backward",
               TORCH_FN(cudnnAttentionBackward));
  library.impl("_scaled_dot_product_efficient_attention",
               TORCH_FN(efficientAttention));
  library.impl("_scaled_dot_product_efficient_attention_backward",
               TORCH_FN(efficientAttentionBackward));
  library.impl("_scaled_dot_product_flash_attention", TORCH_FN(flashAttention));
  library.impl("_scaled_dot_product_flash_attention_backward",
               TORCH_FN(flashAttentionBackward));
}

} // namespace fcdp::emulated
