// SPDX-License-Identifier: Apache-2.0
//
// The content of memory, in the detail that the proofs need.
#pragma once

#include "StreamClocks.h"
#include "dialects/Fcdp/StateRoles.h"
#include "llvm/Support/ErrorHandling.h"

namespace fcdp {

enum class ContentKind : uint8_t {
  /// No content that may be read.
  nothing,
  /// Part of a bucket's parameters.
  weights,
  /// Gradients of a bucket, possibly summed.
  gradient,
  /// State of an optimizer.
  optimizer,
  /// State of outer steps.
  outer,
  /// State of anything else, such as what messages have left out.
  other,
  /// The difference between a bucket's outer parameters and a node's.
  difference,
};

/// Returns the kind of the content of states of `role`.
inline ContentKind getContentKind(StateRole role) {
  switch (getRecord(role).kind) {
  case StateKind::parameters:
  case StateKind::copy:
    return ContentKind::weights;
  case StateKind::optimizer:
    return ContentKind::optimizer;
  case StateKind::outer:
    return ContentKind::outer;
  case StateKind::sum:
    return ContentKind::gradient;
  case StateKind::other:
    return ContentKind::other;
  }
  llvm_unreachable("unknown kind of a state");
}

struct Content {
  ContentKind kind = ContentKind::nothing;
  /// The operation that wrote it; 0 if it was written before the run.
  OpIndex writer = 0;
  int32_t bucket = -1;
  /// The bytes that were written, on all ranks together.
  int64_t begin = 0, end = 0;
  /// Bit `a` is set if the content is gathered (weights) or reduced (gradients,
  /// differences) over axis `a`.
  uint8_t axes = 0;
  /// For gradients and differences, bit `a` is set if they were gathered over
  /// axis `a` after their reduction.
  uint8_t gathered = 0;
  /// For weights, states and differences, the number of updates that it
  /// reflects.
  int32_t version = 0;
  /// For gradients, the last micro-batch in the accumulator, counted over the
  /// run.
  int32_t batch = 0;
  /// For gradients, whether the accumulator includes all micro-batches of the
  /// step up to `batch`. Otherwise `batch` is the only one.
  bool isPrefix = false;
  /// For gradients, the update that used them, or 0.
  OpIndex takenBy = 0;
  /// For a piece of a state, the state and the first element; -1 otherwise.
  int32_t pieceOf = -1;
  int64_t pieceBegin = 0;
  /// Content that became part of this one in place, or 0.
  int32_t part = 0;
};

} // namespace fcdp
