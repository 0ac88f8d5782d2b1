// SPDX-License-Identifier: Apache-2.0

#include "cpu/CpuArena.h"
#include "core/MemoryError.h"
#include "cpu/MemoryLimit.h"

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string>
#include <sys/mman.h>
#include <unistd.h>

namespace fcdp {

namespace {

/// The address space, without memory, that is reserved for the arena to grow
/// into. Less is reserved if the process's limit is lower.
constexpr uint64_t kMostGrowth = uint64_t(64) << 30;

uint64_t toPages(uint64_t bytes) {
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  return (bytes + page - 1) / page * page;
}

[[noreturn]] void refuse(uint64_t bytes, const std::string &why) {
  throw MemoryError("cannot reserve " + std::to_string(bytes) +
                    " bytes for the device arena: " + why);
}

} // namespace

CpuArena::CpuArena(uint64_t bytes) {
  requireMemory("the device arena", bytes);
  void *mapped = MAP_FAILED;
  for (uint64_t more = kMostGrowth; mapped == MAP_FAILED; more /= 2) {
    reserved = toPages(bytes + more);
    if (reserved == 0)
      return;
    mapped = mmap(nullptr, reserved, PROT_NONE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED && more == 0)
      refuse(bytes, std::strerror(errno));
  }
  address = static_cast<std::byte *>(mapped);
  try {
    grow(bytes);
  } catch (...) {
    munmap(address, reserved);
    throw;
  }
}

void CpuArena::grow(uint64_t wanted) {
  if (wanted <= bytes)
    return;
  requireMemory("the device arena", wanted - bytes);
  if (wanted > reserved)
    refuse(wanted, "only " + std::to_string(reserved) +
                       " bytes of addresses are reserved");
  if (mprotect(address, toPages(wanted), PROT_READ | PROT_WRITE) != 0)
    refuse(wanted, std::strerror(errno));
  // Huge pages save page faults and TLB misses. If they are off, this has no
  // effect.
  madvise(address, toPages(wanted), MADV_HUGEPAGE);
  bytes = wanted;
}

CpuArena::~CpuArena() {
  if (address)
    munmap(address, reserved);
}

} // namespace fcdp
