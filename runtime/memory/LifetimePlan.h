// SPDX-License-Identifier: Apache-2.0
//
// Places allocations of known sizes and lifetimes in one region.
#pragma once

#include "core/Packing.h"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace fcdp {

/// One allocation of a step. Time is counted in events: allocations, begins of
/// operations, and moments at which a reservation of memory begins or ends. The
/// allocation is event `madeAt`, and it is freed before event `freedAt`.
struct Lifetime {
  static constexpr uint32_t kNever = std::numeric_limits<uint32_t>::max();
  size_t bytes = 0;
  uint32_t madeAt = 0;
  uint32_t freedAt = kNever;
};

/// Bytes of the region that the pool may not use, from event `from` to event
/// `to`.
struct Obstacle {
  uint64_t offset = 0, bytes = 0;
  uint32_t from = 0, to = Lifetime::kNever;
};

/// The begin of an operation, or of the work between functions.
struct OperationStart {
  /// Identifies the function; null between functions.
  const void *function = nullptr;
  /// Index of the operation.
  size_t op = 0;
  /// Index of the first allocation after this point.
  size_t firstLifetime = 0;
  uint32_t event = 0;
};

/// The allocations and reservations of one step.
struct StepEvents {
  std::vector<Lifetime> lifetimes;
  std::vector<Obstacle> obstacles;
  std::vector<OperationStart> operations;
  /// The event of each change, at which reservations end and begin.
  std::vector<uint32_t> changes;
};

struct Placement {
  /// The offset of each allocation, a multiple of kPoolAlignment. Allocations
  /// that are never freed have none.
  std::vector<size_t> offsets;
  /// The end of the last allocation or obstacle.
  size_t regionBytes = 0;
};

inline constexpr size_t kPoolAlignment = packing::kPoolAlignment;

/// Places the allocations that are freed, by the algorithm of core/Packing.h,
/// after the first `reserved` bytes and around the obstacles.
Placement placeLifetimes(const StepEvents &events, size_t reserved = 0);

} // namespace fcdp
