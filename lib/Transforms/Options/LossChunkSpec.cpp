// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Transforms/Options/LossChunkSpec.h"

#include "core/LossWorkspace.h"
#include "fcdp/Support/Units.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>

using namespace fcdp;

/// The most bytes of logits that `auto` leaves whole. Below, a chunked loss
/// frees little, and the head's gradient keeps the bits of PyTorch's.
static constexpr int64_t kWholeBytes = int64_t(256) << 20;

/// The bytes of logits in a chunk of `auto`. A chunk of this size is still a
/// large product: 256 rows of a vocabulary of 32,000 in f32.
static constexpr int64_t kChunkBytes = int64_t(32) << 20;

/// The fewest rows of a chunk of `auto`. The head's gradient is read and
/// written once for each chunk.
static constexpr int64_t kFewestRows = 64;

int64_t LossChunkSpec::getRows(int64_t all, int64_t vocabulary,
                               int64_t elementBytes) const {
  int64_t most = rows;
  if (mode == Mode::Auto) {
    int64_t rowBytes = std::max<int64_t>(vocabulary * elementBytes, 1);
    if (all <= kWholeBytes / rowBytes)
      return 0;
    most = std::max(kFewestRows, kChunkBytes / rowBytes);
  }
  if (most <= 0 || all <= 0)
    return 0;
  if (most >= all)
    return all;
  // Chunks of almost equal length.
  int64_t blocks = llvm::divideCeil(all, kLossRowMultiple),
          each = std::max<int64_t>(most / kLossRowMultiple, 1),
          chunks = llvm::divideCeil(blocks, each);
  return std::min<int64_t>(all,
                           kLossRowMultiple * llvm::divideCeil(blocks, chunks));
}

llvm::Expected<LossChunkSpec> fcdp::parseLossChunk(llvm::StringRef text) {
  if (text == "off")
    return LossChunkSpec();
  if (text == "auto")
    return LossChunkSpec{LossChunkSpec::Mode::Auto, 0};
  std::optional<int64_t> rows = parseInteger(text);
  if (rows && *rows > 0)
    return LossChunkSpec{LossChunkSpec::Mode::Rows, *rows};
  return llvm::createStringError(
      "expected 'off', 'auto' or a positive number of rows, got '" + text +
      "'");
}
