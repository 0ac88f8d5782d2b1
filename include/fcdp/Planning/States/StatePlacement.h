// SPDX-License-Identifier: Apache-2.0
//
// Chooses the buckets whose states leave the device. It does not use the IR.
#pragma once

#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/Error.h"

#include <cstdint>

namespace fcdp {

struct StatePlacementProblem {
  struct Bucket {
    /// The bytes of a rank's states.
    int64_t bytes;
    /// The time in which an update loads and stores them.
    double seconds;
  };
  llvm::SmallVector<Bucket> buckets;
  /// The bytes that must leave the device.
  int64_t needed = 0;

  /// Fails on negative bytes or times.
  llvm::Error check() const;
};

struct StatePlacement {
  /// By bucket, whether its states are in host memory.
  llvm::SmallVector<bool> isOnHost;

  int64_t countBytes(const StatePlacementProblem &problem) const;
  /// Fails if too few bytes leave the device although more could, or if a
  /// bucket could stay.
  llvm::Error verify(const StatePlacementProblem &problem) const;
};

/// Moves about as few bytes as are needed, the cheapest ones first. If all
/// buckets together are too few, it moves all.
StatePlacement placeStates(const StatePlacementProblem &problem);

} // namespace fcdp
