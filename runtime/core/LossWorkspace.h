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

  /// The part of the loss that reads a teacher's logits.
  struct Teacher {
    bool exists = false;
    /// Whether there are labels as well, so that logits are read twice.
    bool hasLabels = false;
    /// The features of the teacher's hidden states; 0 if logits are given.
    int64_t hidden = 0;
    /// Bytes of an element of the teacher's logits.
    int64_t modelBytes = 4;
    /// Steps of the teacher's logits, of the student's that labels and teacher
    /// have in common, and of the student's for the teacher alone.
    bool isCast = false, hasTanh = false;
    bool isCommonCast = false;
    bool isStudentCast = false, hasStudentTanh = false;
    /// Whether infinite logits do not count.
    bool skipsInfinite = false;
  };
  Teacher teacher;

  /// Returns the bytes of an element of the log-probabilities.
  constexpr int64_t lossBytes() const { return isCast ? 4 : modelBytes; }
  /// Returns the bytes of an element of those that a teacher's are compared
  /// with.
  constexpr int64_t studentBytes() const {
    return teacher.isCommonCast || teacher.isStudentCast ? 4 : modelBytes;
  }
  constexpr bool hasGradient() const {
    return trainsHidden || trainsWeight || trainsBias;
  }
  /// Returns whether the gradients of weight and bias are summed in f32 and
  /// rounded afterwards.
  constexpr bool isNarrow() const { return modelBytes < 4; }
  /// Returns the most classes of a block, whose logits of all rows have the
  /// memory of a chunk's. Returns 0 if there are no blocks: the sum over chunks
  /// needs memory of its own only in a narrow model, log-probabilities that are
  /// not cast are too coarse to be computed again, and a teacher's are not.
  constexpr int64_t getLargestBlock() const {
    if (!trainsWeight || !isNarrow() || !isCast || rows == 0 || teacher.exists)
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
    const LossShape::Teacher &t = s.teacher;
    logits = take(logitCount * s.modelBytes);
    common = t.isCommonCast ? take(logitCount * 4) : logits;
    // Without a cast, log-probabilities take the place of the logits, unless
    // these are read twice.
    const int64_t probabilityBytes =
        s.lossBytes() > s.studentBytes() ? s.lossBytes() : s.studentBytes();
    if (t.hasLabels)
      logProbabilities = take(logitCount * probabilityBytes);
    else if (t.exists)
      logProbabilities = common;
    else
      logProbabilities = s.isCast ? take(logitCount * s.lossBytes()) : logits;
    tanh = take(s.hasTanh ? logitCount * s.modelBytes : 0);
    gradient = take(s.hasGradient() && t.exists == t.hasLabels
                        ? logitCount * s.lossBytes()
                        : 0);
    // With a cast, the gradient before the cast back has this place.
    wideGradient = isSummedApart && (s.lossBytes() < 4 || t.exists)
                       ? take(logitCount * 4)
                       : gradient;
    wideHidden = take(isSummedApart ? s.chunk * s.hidden * 4 : 0);
    weightSum = take(isSummedApart ? s.vocabulary * s.hidden * 4 : 0);
    const int64_t sumBytes = s.isNarrow() ? 4 : s.modelBytes;
    biasOfChunk = take(s.trainsBias ? s.vocabulary * sumBytes : 0);
    biasSum = take(s.trainsBias && s.isNarrow() ? s.vocabulary * sumBytes : 0);
    const int64_t labelRows = t.exists == t.hasLabels ? s.rows : 0;
    isIgnored = take(labelRows);
    classes = take(labelRows * 8);
    rowClasses = take(labelRows * 8);
    rowLogProbabilities = take(labelRows * s.lossBytes());
    labelLogits = take(t.hasLabels && s.isCast && !t.isCommonCast
                           ? logitCount * s.modelBytes
                           : 0);
    studentLogits = take(t.isStudentCast ? logitCount * s.modelBytes : 0);
    studentTanh = take(t.hasStudentTanh ? logitCount * s.modelBytes : 0);
    teacherLogits = take(t.exists ? logitCount * t.modelBytes : 0);
    target = t.isCast ? take(logitCount * s.studentBytes()) : teacherLogits;
    teacherTanh = take(t.hasTanh ? logitCount * t.modelBytes : 0);
    terms = take(t.exists ? logitCount * s.studentBytes() : 0);
    studentGradient = take(t.exists ? logitCount * s.studentBytes() : 0);
    isInfinite = take(t.skipsInfinite ? logitCount : 0);
    divergenceSums = take(t.exists ? 16 : 0);
    const int64_t blockRows = s.block != 0 ? s.rows : 0;
    rowLogSumExp = take(blockRows * 4);
    rowGradient = take(blockRows * 4);
    rowTotal = take(blockRows * 4);
    blockClasses = take(blockRows * 8);
    nearestClasses = take(blockRows * 8);
    isOutside = take(blockRows);
    blockGradient = take(blockRows * 4);
  }

  int64_t logits = 0, common = 0, logProbabilities = 0, tanh = 0, gradient = 0,
          wideGradient = 0, wideHidden = 0, weightSum = 0, biasOfChunk = 0,
          biasSum = 0, labelLogits = 0, studentLogits = 0, studentTanh = 0,
          teacherLogits = 0, target = 0, teacherTanh = 0, terms = 0,
          studentGradient = 0, isInfinite = 0, divergenceSums = 0,
          isIgnored = 0, classes = 0, rowClasses = 0, rowLogProbabilities = 0,
          rowLogSumExp = 0, rowGradient = 0, rowTotal = 0, blockClasses = 0,
          nearestClasses = 0, isOutside = 0, blockGradient = 0;
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
