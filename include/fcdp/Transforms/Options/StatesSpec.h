// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "llvm/Support/Error.h"

#include <cstdint>

namespace fcdp {

/// The memory of the states that optimizers update.
struct StatesSpec {
  enum class Mode { Device, Host, File, Auto };
  Mode mode = Mode::Device;
  /// The most bytes of the pieces, of all states of a bucket together, that an
  /// update loads at once. A copy of this size takes a
  /// thousand times as long as it takes to begin one.
  int64_t pieceBytes = int64_t(64) << 20;
};

/// Parses `device`, `host`, `file` or `auto`, and after it `,piece=BYTES`.
llvm::Expected<StatesSpec> parseStates(llvm::StringRef text);

/// The processors that update states in host memory: the device's, the node's,
/// or for each bucket those that are predicted to be faster.
enum class UpdateMode { Device, Host, Auto };

/// Parses `device`, `host` or `auto`.
llvm::Expected<UpdateMode> parseUpdate(llvm::StringRef text);

} // namespace fcdp
