// SPDX-License-Identifier: Apache-2.0
//
// A projection to a vocabulary and the cross entropy of its result, in chunks
// of rows, so that logits are never in memory as a whole. The gradients are
// computed with the loss, because the gradient of the loss is known before.
//
// Each chunk is computed by the operators of ATen that compute the whole. Loss
// and the gradient of the hidden states therefore have the bits of the whole.
// The gradients of weight and bias are sums over chunks, in f32.
#pragma once

#include <ATen/core/Tensor.h>
#include <optional>
#include <string>
#include <vector>

namespace fcdp {

/// The arguments of fcdp.chunked_loss and fcdp.chunked_distillation, which
/// dialects/Aten/AtenOps.td describes.
struct ChunkedLoss {
  /// The arguments that only the second operator has.
  struct Teacher {
    /// Logits of the teacher, or the hidden states that `weight` projects.
    at::Tensor logits;
    std::optional<at::Tensor> weight, bias, gradient;
    std::string steps;
    std::vector<double> factors;
    /// The first `common` of the loss's steps are the student's as well, which
    /// has these after them.
    int64_t common = 0;
    std::string studentSteps;
    std::vector<double> studentFactors;
    std::string terms;
    bool skipsInfinite = false;
    /// Whether there is a sum for each row, instead of one.
    bool byRow = false;
  };

  at::Tensor hidden, weight;
  std::optional<at::Tensor> bias;
  /// Undefined if only a teacher is read.
  at::Tensor labels;
  std::optional<at::Tensor> gradient, sumGradient;
  /// The most rows of a chunk: a multiple of kLossRowMultiple, or all rows.
  int64_t rows = 0;
  std::string steps;
  std::vector<double> factors;
  int64_t reduction = 1;
  /// The label of rows that do not count, if there is one.
  std::optional<int64_t> ignoreIndex = -100;
  /// Whether the sum of each row's log-probabilities is a result.
  bool sums = false;
  /// The gradients that are computed: of hidden states, weight and bias.
  bool trainsHidden = false, trainsWeight = false, trainsBias = false;
  /// The classes in a block of the weight's gradient; 0 for all.
  int64_t block = 0;
  int64_t workspaceBytes = 0;
  std::optional<Teacher> teacher;

  /// Tensors that are not computed are undefined.
  struct Results {
    at::Tensor loss, totalWeight, rowSums, hidden, weight, bias, workspace,
        divergence;
  };
  /// Throws std::runtime_error if the arguments do not fit together.
  Results run() const;
};

} // namespace fcdp
