// SPDX-License-Identifier: Apache-2.0
//
// Which values of the forward pass are in host memory until the backward pass
// reads them, and when they are copied. It does not use the IR.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/Error.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace fcdp {

/// The operations of a function, by position, and the values that its backward
/// pass reads.
struct ActivationProblem {
  struct Value {
    int64_t bytes = 0;
    /// The operation that makes it, the last operation of the forward pass that
    /// reads it (or the one that makes it), and the first one after the forward
    /// pass.
    size_t made = 0, lastForward = 0, firstBackward = 0;
    /// Seconds of the copy to host memory, and of the copy back.
    double storeSeconds = 0, loadSeconds = 0;
  };
  /// Seconds of compute of each operation.
  std::vector<double> seconds;
  /// The values in the order in which they are made.
  llvm::SmallVector<Value> values;

  /// Fails on times that are negative or infinite, and on values that are not
  /// in order or read before they are made.
  llvm::Error check() const;
};

/// The copies of one value.
struct ActivationMove {
  bool isStored = false;
  /// The operation before which compute waits for the copy to host memory and
  /// the device memory is free, and the operation before which the copy back is
  /// issued.
  size_t dropped = 0, loaded = 0;
  /// Seconds that compute waits for either copy.
  double exposedSeconds = 0;
};

struct ActivationSolution {
  /// By value.
  llvm::SmallVector<ActivationMove> moves;
  /// Sum over the values.
  double exposedSeconds = 0;
  int64_t storedBytes = 0;
  size_t countStored() const;

  /// Fails if a value is loaded before it is dropped, dropped before its last
  /// use in the forward pass or loaded after its first use in the backward
  /// pass, or if a sum is wrong.
  llvm::Error verify(const ActivationProblem &problem) const;
};

/// Returns when the values of `chosen` are copied. Each stream copies one value
/// after another. A value is stored as soon as it is made. It is dropped after
/// its last use in the forward pass, where the copy is expected to be complete.
/// It is loaded as late as possible so that it is there in time. A value
/// without time between the two stays on the device.
ActivationSolution placeMoves(const ActivationProblem &problem,
                              llvm::ArrayRef<bool> chosen);

/// Returns the values whose copies are hidden together, in the order in which
/// they are made: an early value leaves the device for longest.
llvm::SmallVector<bool> chooseHidden(const ActivationProblem &problem);

/// Returns the indices of all values in the order in which they should leave
/// the device: first those that `chooseHidden` chooses, then the others by the
/// seconds for which compute waits for each byte.
llvm::SmallVector<size_t> orderByExposure(const ActivationProblem &problem);

} // namespace fcdp
