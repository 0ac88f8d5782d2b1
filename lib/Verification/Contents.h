// SPDX-License-Identifier: Apache-2.0
//
// What memory holds, as far as a training step has to know.
#pragma once

#include "StreamClocks.h"

namespace fcdp {

enum class ContentKind : uint8_t {
  /// Nothing that may be read.
  nothing,
  /// A part of a bucket's parameters.
  weights,
  /// A sum of a bucket's gradients.
  gradient,
  /// What an optimizer keeps.
  optimizer,
};

struct Content {
  ContentKind kind = ContentKind::nothing;
  /// Who wrote it; 0: it was loaded before the run.
  OpIndex writer = 0;
  int32_t bucket = -1;
  /// Where it was written, in bytes on all ranks together.
  int64_t begin = 0, end = 0;
  /// Bit `a`: gathered, or reduced, over axis `a`.
  uint8_t axes = 0;
  /// Of gradients: bit `a`: gathered over axis `a` after their reduction.
  uint8_t gathered = 0;
  /// Of weights: how many updates they have seen.
  int32_t version = 0;
  /// Of gradients: the last micro-batch in the sum, counted over the run.
  int32_t batch = 0;
  /// Of gradients: whether all micro-batches of the step up to `batch` are in
  /// the sum; else `batch` is the only one.
  bool isPrefix = false;
  /// Of gradients: the update that took them, or 0.
  OpIndex takenBy = 0;
  /// Content that became part of this one where it stood, or 0.
  int32_t part = 0;
};

} // namespace fcdp
