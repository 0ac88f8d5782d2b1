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
/// Blocks of classes begin at multiples of this number.
inline constexpr int64_t kLossBlockMultiple = 64;

/// The sizes of a loss that is computed in chunks.
struct LossShape {
  /// Rows of all chunks, and of the longest chunk.
  int64_t rows = 0, chunk = 0;
  int64_t hidden = 0, vocabulary = 0;
  /// The classes in a block of the weight's gradient. Each block is computed
  /// from all rows after the chunks, with its logits computed again. 0 if the
  /// gradient is a sum over chunks.
  int64_t block = 0;
  /// Bytes of an element of the product.
  int64_t modelBytes = 4;
  bool isCast = false, hasTanh = false;
  bool trainsHidden = false, trainsWeight = false, trainsBias = false;

  /// Returns the bytes of an element of the log-probabilities.
  constexpr int64_t lossBytes() const { return isCast ? 4 : modelBytes; }
  constexpr bool hasGradient() const {
    return trainsHidden || trainsWeight || trainsBias;
  }
  /// Returns whether the gradients of weight and bias are summed in f32 and
  /// rounded afterwards.
  constexpr bool isNarrow() const { return modelBytes < 4; }
  /// Returns the most classes of a block, whose logits of all rows have the
  /// memory of a chunk's. Returns 0 if there are no blocks: the sum over chunks
  /// needs memory of its own only in a narrow model, and log-probabilities that
  /// are not cast are too coarse to be computed again.
  constexpr int64_t getLargestBlock() const {
    if (!trainsWeight || !isNarrow() || !isCast || rows == 0)
      return 0;
    const int64_t most =
        chunk * vocabulary / rows / kLossBlockMultiple * kLossBlockMultiple;
    return most < vocabulary ? most : 0;
  }
};

/// Offsets in bytes of the parts of the workspace. Parts that a loss does not
/// need are empty. Sizes of real tensors do not overflow: none has more than
/// 2^48 bytes.
struct LossWorkspace {
  static constexpr int64_t kAlignment = 64;

  explicit constexpr LossWorkspace(const LossShape &s) {
    const int64_t logitCount = s.chunk * s.vocabulary;
    const bool isSummedApart = s.trainsWeight && s.isNarrow() && s.block == 0;
    logits = take(logitCount * s.modelBytes);
    // Without a cast, log-probabilities take the place of the logits.
    logProbabilities = s.isCast ? take(logitCount * s.lossBytes()) : logits;
    tanh = take(s.hasTanh ? logitCount * s.modelBytes : 0);
    gradient = take(s.hasGradient() ? logitCount * s.lossBytes() : 0);
    // With a cast, the gradient before the cast back has this place.
    wideGradient =
        isSummedApart && s.lossBytes() < 4 ? take(logitCount * 4) : gradient;
    wideHidden = take(isSummedApart ? s.chunk * s.hidden * 4 : 0);
    weightSum = take(isSummedApart ? s.vocabulary * s.hidden * 4 : 0);
    const int64_t sumBytes = s.isNarrow() ? 4 : s.modelBytes;
    biasOfChunk = take(s.trainsBias ? s.vocabulary * sumBytes : 0);
    biasSum = take(s.trainsBias && s.isNarrow() ? s.vocabulary * sumBytes : 0);
    isIgnored = take(s.rows);
    classes = take(s.rows * 8);
    rowClasses = take(s.rows * 8);
    rowLogProbabilities = take(s.rows * s.lossBytes());
    const int64_t blockRows = s.block != 0 ? s.rows : 0;
    rowLogSumExp = take(blockRows * 4);
    rowGradient = take(blockRows * 4);
    rowTotal = take(blockRows * 4);
    blockClasses = take(blockRows * 8);
    nearestClasses = take(blockRows * 8);
    isOutside = take(blockRows);
    blockGradient = take(blockRows * 4);
  }

  int64_t logits = 0, logProbabilities = 0, tanh = 0, gradient = 0,
          wideGradient = 0, wideHidden = 0, weightSum = 0, biasOfChunk = 0,
          biasSum = 0, isIgnored = 0, classes = 0, rowClasses = 0,
          rowLogProbabilities = 0, rowLogSumExp = 0, rowGradient = 0,
          rowTotal = 0, blockClasses = 0, nearestClasses = 0, isOutside = 0,
          blockGradient = 0;
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
