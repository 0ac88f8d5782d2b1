// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mlir/Support/LLVM.h"
#include "llvm/Support/Error.h"

#include <limits>
#include <optional>

namespace fcdp {

/// A number that an option sets by NAME=VALUE.
struct Setting {
  llvm::StringRef name;
  /// The default until it is parsed; may be none.
  std::optional<double> value;
  /// Accepted values are in [least, below).
  double least, below;
};

constexpr double kAnyNumber = std::numeric_limits<double>::infinity();

/// Applies `name=value` to one of `settings`. Errors call what they belong to
/// `owner`.
llvm::Error parseSetting(llvm::StringRef text, const llvm::Twine &owner,
                         llvm::MutableArrayRef<Setting> settings);

} // namespace fcdp
