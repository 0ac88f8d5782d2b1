// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "llvm/Support/Error.h"

#include <cstdint>

namespace fcdp {

/// The losses that are computed in chunks.
struct LossChunkSpec {
  enum class Mode { Off, Auto, Rows };
  Mode mode = Mode::Off;
  /// The most rows of a chunk, in mode `Rows`.
  int64_t rows = 0;

  /// Returns the most rows of a chunk of logits, which have `rows` x
  /// `vocabulary` elements of `elementBytes` bytes: a multiple of
  /// kLossRowMultiple, or all rows. Returns 0 if they are not computed in
  /// chunks.
  int64_t getRows(int64_t rows, int64_t vocabulary, int64_t elementBytes) const;
};

/// Parses `off`, `auto` or a number of rows. Errors list them.
llvm::Expected<LossChunkSpec> parseLossChunk(llvm::StringRef text);

} // namespace fcdp
