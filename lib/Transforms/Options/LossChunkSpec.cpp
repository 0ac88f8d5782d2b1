// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Transforms/Options/LossChunkSpec.h"

#include "fcdp/Support/Units.h"

#include "llvm/ADT/StringRef.h"

using namespace fcdp;

llvm::Expected<LossChunkSpec> fcdp::parseLossChunk(llvm::StringRef text) {
  LossChunkSpec spec;
  if (text == "off")
    return spec;
  llvm::StringRef rows = text;
  if (rows.consume_back(",sum"))
    spec.head = LossChunkSpec::Head::Sum;
  else if (rows.consume_back(",blocks"))
    spec.head = LossChunkSpec::Head::Blocks;
  spec.mode = LossChunkSpec::Mode::Auto;
  if (rows == "auto")
    return spec;
  spec.mode = LossChunkSpec::Mode::Rows;
  std::optional<int64_t> number = parseInteger(rows);
  if (number && *number > 0) {
    spec.rows = *number;
    return spec;
  }
  return llvm::createStringError(
      "expected 'off', 'auto' or a positive number of rows, and ',sum' or "
      "',blocks' after the last two, got '" +
      text + "'");
}
