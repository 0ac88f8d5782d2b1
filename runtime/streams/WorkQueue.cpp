// SPDX-License-Identifier: Apache-2.0

#include "streams/WorkQueue.h"

#include <bit>

namespace fcdp {

WorkQueue::WorkQueue(uint32_t capacity)
    : mask(std::bit_ceil(uint64_t(capacity ? capacity : 1)) - 1),
      ring(new Command[mask + 1]) {}

bool WorkQueue::tryPush(const Command &command) {
  uint64_t at = pushed.load(std::memory_order_relaxed);
  if (at - popped.load(std::memory_order_seq_cst) > mask)
    return false;
  ring[at & mask] = command;
  pushed.store(at + 1, std::memory_order_seq_cst);
  return true;
}

bool WorkQueue::tryPop(Command &command) {
  uint64_t at = popped.load(std::memory_order_relaxed);
  if (at == pushed.load(std::memory_order_seq_cst))
    return false;
  command = ring[at & mask];
  popped.store(at + 1, std::memory_order_seq_cst);
  return true;
}

bool WorkQueue::full() const {
  return pushed.load(std::memory_order_seq_cst) -
             popped.load(std::memory_order_seq_cst) >
         mask;
}

bool WorkQueue::empty() const {
  return pushed.load(std::memory_order_seq_cst) ==
         popped.load(std::memory_order_seq_cst);
}

} // namespace fcdp
