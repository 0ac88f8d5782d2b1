// SPDX-License-Identifier: Apache-2.0
//
// Computes random permutations element by element.
#pragma once

#include <array>
#include <cstdint>

namespace fcdp::run {

/// A permutation of [0, size) that depends on a seed, the number of a series of
/// rows and the number of an epoch. It takes constant memory: a balanced
/// Feistel network permutes the least power of 4 that has `size` elements, and
/// is applied again while its result is not below `size` ("cycle walking";
/// Black and Rogaway, "Ciphers with Arbitrary Finite Domains", CT-RSA 2002).
/// python/fcdp/data.py computes the same. Immutable, hence thread-safe.
class Permutation {
public:
  /// `size` is in [1, 2^62].
  Permutation(int64_t size, uint64_t seed, uint64_t series, uint64_t epoch);

  /// Returns the element that `index`, in [0, size), is mapped to.
  int64_t operator()(int64_t index) const;

private:
  /// The number of rounds. Four are enough for a large domain (Luby and
  /// Rackoff, 1988); a small one needs more to reach nearly all permutations.
  static constexpr int kRounds = 12;

  uint64_t permuteAll(uint64_t value) const;

  uint64_t size;
  int halfBits = 1;
  std::array<uint64_t, kRounds> keys;
};

} // namespace fcdp::run
