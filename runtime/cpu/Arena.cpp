// SPDX-License-Identifier: Apache-2.0

#include "cpu/Arena.h"
#include "cpu/MemoryLimit.h"

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string>
#include <sys/mman.h>

namespace fcdp {

Arena::Arena(uint64_t bytes) : bytes(bytes) {
  if (bytes == 0)
    return;
  requireMemory("the device arena", bytes);
  void *mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED)
    throw std::runtime_error(
        "cannot reserve " + std::to_string(bytes) +
        " bytes for the device arena: " + std::strerror(errno));
  // Fewer page faults and TLB misses; where it is off, nothing is lost.
  madvise(mapped, bytes, MADV_HUGEPAGE);
  address = static_cast<std::byte *>(mapped);
}

Arena::~Arena() {
  if (address)
    munmap(address, bytes);
}

} // namespace fcdp
