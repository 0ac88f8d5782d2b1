// SPDX-License-Identifier: Apache-2.0
//
// The parts that the rules have in common: memory, handles, and reports.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace fcdp::contracts {

/// A stream, event, communicator or graph of the checked libraries.
using Handle = const void *;

/// One call that a rule forbids.
struct Violation {
  const char *rule;
  std::string expected, found;
};

using Report = std::function<void(const Violation &)>;

/// Some bytes of one allocation. `block` is its number, or 0 if it is not one
/// that the checker has seen.
struct Span {
  uintptr_t begin = 0, end = 0;
  uint64_t block = 0;

  uint64_t size() const { return end - begin; }
  bool overlaps(const Span &other) const {
    return begin < other.end && other.begin < end;
  }
  bool contains(const Span &other) const {
    return begin <= other.begin && other.end <= end;
  }
};

inline Span spanOf(const void *address, uint64_t bytes, uint64_t block = 0) {
  auto begin = reinterpret_cast<uintptr_t>(address);
  return {begin, begin + bytes, block};
}

/// Return the memory and the handle in words.
std::string describe(const Span &span);
std::string describe(Handle handle);

} // namespace fcdp::contracts
