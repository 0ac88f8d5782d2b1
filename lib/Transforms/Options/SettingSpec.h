// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mlir/Support/LLVM.h"
#include "llvm/Support/Error.h"

#include <limits>
#include <optional>

namespace fcdp {

constexpr double kAnyNumber = std::numeric_limits<double>::infinity();

/// A setting NAME=VALUE of an option. The value is a number or one of some
/// words.
struct Setting {
  llvm::StringRef name;
  /// The default value until the text is parsed; may be none.
  std::optional<double> value;
  /// Accepted values are in [least, below).
  double least = 0, below = kAnyNumber;
  /// If not empty, one of these words is expected, and the value is its index.
  llvm::SmallVector<llvm::StringRef> words = {};
  /// If not null, returns whether a value in that range is allowed. `refusal`
  /// is the error.
  bool (*isAllowed)(double) = nullptr;
  llvm::StringRef refusal = {};
};

/// Applies `name=value` to one of `settings`. Errors name `owner`, which the
/// settings belong to.
llvm::Error parseSetting(llvm::StringRef text, const llvm::Twine &owner,
                         llvm::MutableArrayRef<Setting> settings);

/// Checks that the values of settings are allowed.
llvm::Error checkSettings(llvm::ArrayRef<Setting> settings);

} // namespace fcdp
