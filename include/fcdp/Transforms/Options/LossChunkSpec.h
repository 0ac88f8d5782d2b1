// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "llvm/Support/Error.h"

#include <cstdint>

namespace fcdp {

/// The losses that are computed in chunks.
struct LossChunkSpec {
  enum class Mode { Off, Auto, Rows };
  /// How the gradient of the projection's weight is computed.
  enum class Head { Auto, Sum, Blocks };
  Mode mode = Mode::Off;
  /// The most rows of a chunk, in mode `Rows`.
  int64_t rows = 0;
  Head head = Head::Auto;
};

/// Parses `off`, `auto` or a number of rows. After the last two, `,sum` or
/// `,blocks` may follow. Errors list them.
llvm::Expected<LossChunkSpec> parseLossChunk(llvm::StringRef text);

} // namespace fcdp
