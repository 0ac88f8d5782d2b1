// SPDX-License-Identifier: Apache-2.0
//
// Lays out the memory in which fcdp.chunked_loss keeps one chunk of logits. The
// compiler plans its size, and the runtime uses the same layout.
#pragma once

#include <cstdint>

namespace fcdp {

/// Chunks begin at multiples of this number of rows. Products of fewer rows,
/// and of other numbers, may be computed in another order.
inline constexpr int64_t kLossRowMultiple = 16;

/// The sizes of a loss that is computed in chunks.
struct LossShape {
  /// Rows of all chunks, and of the longest chunk.
  int64_t rows = 0, chunk = 0;
  int64_t hidden = 0, vocabulary = 0;
  /// Bytes of an element of the product, and of the log-probabilities.
  int64_t modelBytes = 4, lossBytes = 4;
  bool isCast = false, hasTanh = false;
  bool hasGradient = false, trainsWeight = false, trainsBias = false;

  /// Returns whether the gradients of weight and bias are summed in f32 and
  /// rounded afterwards.
  bool isNarrow() const { return modelBytes < 4; }
};

/// Offsets in bytes of the parts of the workspace. Parts that a loss does not
/// need are empty. Sizes of real tensors do not overflow: none has more than
/// 2^48 bytes.
struct LossWorkspace {
  static constexpr int64_t kAlignment = 64;

  explicit constexpr LossWorkspace(const LossShape &s) {
    const int64_t logitCount = s.chunk * s.vocabulary;
    const bool isSummedApart = s.trainsWeight && s.isNarrow();
    logits = take(logitCount * s.modelBytes);
    // Without a cast, log-probabilities take the place of the logits.
    logProbabilities = s.isCast ? take(logitCount * s.lossBytes) : logits;
    tanh = take(s.hasTanh ? logitCount * s.modelBytes : 0);
    gradient = take(s.hasGradient ? logitCount * s.lossBytes : 0);
    // With a cast, the gradient before the cast back has this place.
    wideGradient =
        isSummedApart && s.lossBytes < 4 ? take(logitCount * 4) : gradient;
    wideHidden = take(isSummedApart ? s.chunk * s.hidden * 4 : 0);
    weightSum = take(isSummedApart ? s.vocabulary * s.hidden * 4 : 0);
    const int64_t sumBytes = s.isNarrow() ? 4 : s.modelBytes;
    biasOfChunk = take(s.trainsBias ? s.vocabulary * sumBytes : 0);
    biasSum = take(s.trainsBias && s.isNarrow() ? s.vocabulary * sumBytes : 0);
    isIgnored = take(s.rows);
    classes = take(s.rows * 8);
    rowClasses = take(s.rows * 8);
    rowLogProbabilities = take(s.rows * s.lossBytes);
  }

  int64_t logits = 0, logProbabilities = 0, tanh = 0, gradient = 0,
          wideGradient = 0, wideHidden = 0, weightSum = 0, biasOfChunk = 0,
          biasSum = 0, isIgnored = 0, classes = 0, rowClasses = 0,
          rowLogProbabilities = 0;
  /// The size of the whole.
  int64_t bytes = 0;

private:
  constexpr int64_t take(int64_t size) {
    int64_t at = bytes;
    bytes += (size + kAlignment - 1) / kAlignment * kAlignment;
    return at;
  }
};

} // namespace fcdp
