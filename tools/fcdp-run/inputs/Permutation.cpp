// SPDX-License-Identifier: Apache-2.0
#include "inputs/Permutation.h"

#include "inputs/SplitMix.h"

namespace fcdp::run {

Permutation::Permutation(int64_t size, uint64_t seed, uint64_t series,
                         uint64_t epoch)
    : size(uint64_t(size)) {
  while (uint64_t(1) << (2 * halfBits) < this->size)
    ++halfBits;
  SplitMix ofSeed(seed);
  SplitMix ofSeries(ofSeed.next() ^ series);
  SplitMix ofEpoch(ofSeries.next() ^ epoch);
  for (uint64_t &key : keys)
    key = ofEpoch.next();
}

uint64_t Permutation::permuteAll(uint64_t value) const {
  const uint64_t mask = (uint64_t(1) << halfBits) - 1;
  uint64_t left = value >> halfBits, right = value & mask;
  for (uint64_t key : keys) {
    uint64_t mixed = left ^ (mixBits(right + key) & mask);
    left = right;
    right = mixed;
  }
  return left << halfBits | right;
}

int64_t Permutation::operator()(int64_t index) const {
  uint64_t value = uint64_t(index);
  do
    value = permuteAll(value);
  while (value >= size);
  return int64_t(value);
}

} // namespace fcdp::run
