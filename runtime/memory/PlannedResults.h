// SPDX-License-Identifier: Apache-2.0
//
// The places that the compiler has planned for results of operators: where
// these are in a step that is recorded, so that it needs no more memory than
// others.
#pragma once

#include "plan/HeldMemory.h"

#include <map>
#include <optional>
#include <span>

namespace fcdp {

/// Not thread-safe. Knows nothing of what is held but what `isFree` is asked.
class PlannedResults {
public:
  /// Of the next function, by operation; must live until the next call.
  void beginFunction(std::span<const ResultPlace> results);
  /// Operation `op` of it is about to run.
  void reach(size_t op);
  /// Where in the arena `bytes` are planned for a result of this operation;
  /// nothing if none of that size is, or its place is still in use.
  std::optional<uint64_t> take(uint64_t bytes);
  void release(uint64_t offset) { inUse.erase(offset); }
  bool isFree(uint64_t offset, uint64_t bytes) const;

private:
  std::span<const ResultPlace> results;
  /// The operation's, without those that have been taken.
  std::vector<ResultPlace> now;
  size_t next = 0;
  /// By offset, ends of what has been taken.
  std::map<uint64_t, uint64_t> inUse;
};

} // namespace fcdp
