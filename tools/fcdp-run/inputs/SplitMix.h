// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace fcdp::run {

/// Returns the output function of SplitMix64, a bijection.
inline uint64_t mixBits(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

/// The generator SplitMix64 (Steele, Lea, Flood 2014): any two seeds give
/// unrelated streams.
class SplitMix {
public:
  explicit SplitMix(uint64_t seed) : state(seed) {}
  uint64_t next() { return mixBits(state += 0x9e3779b97f4a7c15); }

private:
  uint64_t state;
};

} // namespace fcdp::run
