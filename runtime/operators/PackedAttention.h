// SPDX-License-Identifier: Apache-2.0
//
// Causal attention over rows of several documents, document by document.
#pragma once

#include <ATen/core/Tensor.h>
#include <optional>
#include <tuple>

namespace fcdp {

/// Attention on the CPU in which a token sees those tokens of its row that have
/// its document and no greater position. Documents whose tokens are next to
/// each other, with growing positions, take the time of their own squares. For
/// a row with others the whole square is computed, under a mask. Both functions
/// throw std::runtime_error if shapes or types do not fit.
struct PackedAttention {
  /// [batch, heads, tokens, depth]. Key and value may have fewer heads, by
  /// which the number of the query's is divisible.
  at::Tensor query, key, value;
  /// Integers [batch, tokens].
  at::Tensor documents;
  /// The same; places in the row if there are none.
  std::optional<at::Tensor> positions;
  /// The factor of scores; by default 1 over the square root of the depth.
  std::optional<double> scale;

  /// Returns the result, which lies in memory as the query does, and for the
  /// backward pass the logarithms of the sums [batch, heads, tokens]. These are
  /// 0 for documents of one token, whose gradients need none.
  std::tuple<at::Tensor, at::Tensor> forward() const;
  /// Returns the gradients of query, key and value.
  std::tuple<at::Tensor, at::Tensor, at::Tensor>
  backward(const at::Tensor &gradient, const at::Tensor &out,
           const at::Tensor &logSumExp) const;
};

} // namespace fcdp
