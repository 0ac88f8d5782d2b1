// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "llvm/Support/Error.h"

#include <cstdint>
#include <optional>

namespace fcdp {

/// The amount of the forward pass that the backward pass computes again.
struct RematSpec {
  enum class Mode { None, Unit, Auto, Budget };
  Mode mode = Mode::None;
  /// Bytes that may be kept from the forward to the backward pass of a
  /// micro-batch; given in mode `Budget` only.
  std::optional<int64_t> budget;
};

/// Parses `none`, `unit`, `auto` or a number of bytes. Errors list them.
llvm::Expected<RematSpec> parseRemat(llvm::StringRef text);

} // namespace fcdp
