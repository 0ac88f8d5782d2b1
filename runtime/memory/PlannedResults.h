// SPDX-License-Identifier: Apache-2.0
//
// Gives results of operators the places that the compiler has planned. They are
// used in a recorded step, so that it needs no more memory than other steps.
#pragma once

#include "plan/Reservations.h"

#include <map>
#include <optional>
#include <span>

namespace fcdp {

/// The planned places of operator results. Reserved memory is known only
/// through `isFree`. Not thread-safe.
class PlannedResults {
public:
  /// Begins a function, whose results by operation must live until the next
  /// call.
  void beginFunction(std::span<const plan::ResultPlace> results);
  /// Announces that operation `op` of the function is about to run.
  void reach(size_t op);
  /// Returns the planned offset in the arena for a result of `bytes` bytes of
  /// this operation. Returns none if there is no such result or its place is
  /// still in use.
  std::optional<uint64_t> take(uint64_t bytes);
  void release(uint64_t offset) { inUse.erase(offset); }
  bool isFree(uint64_t offset, uint64_t bytes) const;

private:
  std::span<const plan::ResultPlace> results;
  /// The places of the current operation that have not been taken.
  std::vector<plan::ResultPlace> now;
  size_t next = 0;
  /// Ends of the places in use, by offset.
  std::map<uint64_t, uint64_t> inUse;
};

} // namespace fcdp
