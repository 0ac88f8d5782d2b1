// SPDX-License-Identifier: Apache-2.0
#include "core/ForkedChild.h"

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <pthread.h>
#include <unistd.h>

namespace fcdp {
namespace {

constexpr size_t kBits = 64;
/// The limit on descriptors; greater ones stay open in children.
constexpr size_t kMostDescriptors = 1 << 20;

/// One bit for each descriptor. A child of a process with several threads may
/// only use functions that are safe in signal handlers, so there are no locks.
std::array<std::atomic<uint64_t>, kMostDescriptors / kBits> marked;
std::atomic<size_t> numWords{0}; ///< of `marked` that have been used

void closeMarked() {
  for (size_t word = 0; word < numWords; ++word)
    for (uint64_t bits = marked[word].exchange(0); bits; bits &= bits - 1)
      close(int(word * kBits) + std::countr_zero(bits));
}

} // namespace

void closeInChildren(int fd) {
  static const int registered = pthread_atfork(nullptr, nullptr, closeMarked);
  if (registered != 0 || fd < 0 || size_t(fd) >= kMostDescriptors)
    return;
  const size_t word = size_t(fd) / kBits;
  size_t used = numWords;
  while (used <= word && !numWords.compare_exchange_weak(used, word + 1)) {
  }
  marked[word] |= uint64_t(1) << (size_t(fd) % kBits);
}

bool forgetInChildren(int fd) {
  if (fd < 0 || size_t(fd) >= kMostDescriptors)
    return true;
  const uint64_t bit = uint64_t(1) << (size_t(fd) % kBits);
  return marked[size_t(fd) / kBits].fetch_and(~bit) & bit;
}

} // namespace fcdp
