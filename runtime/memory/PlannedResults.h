// SPDX-License-Identifier: Apache-2.0
//
// The places that the compiler has planned for results of operators: where
// these are in a step that is recorded, so that it needs no more memory than
// others.
#pragma once

#include "plan/Reservations.h"

#include <map>
#include <optional>
#include <span>

namespace fcdp {

/// The planned places of operator results. Learns about reserved memory only
/// through `isFree`. Not thread-safe.
class PlannedResults {
public:
  /// Begins a function, whose results by operation must live until the next
  /// call.
  void beginFunction(std::span<const plan::ResultPlace> results);
  /// Operation `op` of it is about to run.
  void reach(size_t op);
  /// Returns the offset in the arena that is planned for a result of `bytes`
  /// bytes of this operation; none if there is no such result or its place is
  /// still in use.
  std::optional<uint64_t> take(uint64_t bytes);
  void release(uint64_t offset) { inUse.erase(offset); }
  bool isFree(uint64_t offset, uint64_t bytes) const;

private:
  std::span<const plan::ResultPlace> results;
  /// The operation's, without those that have been taken.
  std::vector<plan::ResultPlace> now;
  size_t next = 0;
  /// Ends of the places in use, by offset.
  std::map<uint64_t, uint64_t> inUse;
};

} // namespace fcdp
