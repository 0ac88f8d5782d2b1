// SPDX-License-Identifier: Apache-2.0

#include "cpu/HostSegment.h"
#include "core/MemoryError.h"
#include "cpu/MemoryLimit.h"
#include "cpu/SegmentHandover.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <stdexcept>
#include <sys/mman.h>
#include <unistd.h>

namespace fcdp {
namespace {

[[noreturn]] void fail(uint64_t bytes, const char *call, int error) {
  throw MemoryError("cannot make the host cache of " + std::to_string(bytes) +
                    " bytes: " + call + ": " + std::strerror(error));
}

FileDescriptor makeMemory(uint64_t bytes) {
  requireMemory("the host cache", bytes);
  FileDescriptor memory(memfd_create("fcdp-host-cache", MFD_CLOEXEC));
  if (!memory)
    fail(bytes, "memfd_create", errno);
  if (ftruncate(memory.get(), off_t(bytes)) != 0)
    fail(bytes, "ftruncate", errno);
  return memory;
}

} // namespace

HostSegment::HostSegment(const HostSegmentOptions &options)
    : bytes(options.bytes) {
  if (bytes == 0)
    return;
  auto make = [&] { return makeMemory(bytes); };
  FileDescriptor memory = options.locals == 1  ? make()
                          : options.local == 0 ? offerSegment(options, make)
                                               : takeSegment(options);
  void *mapped =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0);
  if (mapped == MAP_FAILED)
    fail(bytes, "mmap", errno);
  address = static_cast<std::byte *>(mapped);
  try {
    reserve(options, memory.get());
  } catch (...) {
    munmap(address, bytes);
    throw;
  }
}

void HostSegment::reserve(const HostSegmentOptions &options, int memory) {
  const SegmentPart part = options.part;
  if (part.end > bytes)
    throw std::runtime_error("host cache of " + std::to_string(bytes) +
                             " bytes: expected a part inside it, got one that "
                             "ends at " +
                             std::to_string(part.end));
  if (part.begin >= part.end)
    return;
  const uint64_t page = uint64_t(sysconf(_SC_PAGESIZE));
  auto roundUp = [&](uint64_t offset) {
    return std::min((offset + page - 1) / page * page, bytes);
  };
  first = part.begin / page * page;
  length = roundUp(part.end) - first;
  if (uint64_t own = roundUp(part.begin); options.place && own < part.end)
    options.place(address + own, roundUp(part.end) - own);
  // Allocates and zeroes the pages now, in huge pages where the system lets
  // shared memory have them on request. A kernel before 5.14 does not support
  // this.
  madvise(address + first, length, MADV_HUGEPAGE);
  madvise(address + first, length, MADV_POPULATE_WRITE);
  // Without this, the first write to a page without memory would raise a
  // signal. It alone would allocate small pages.
  int error;
  do
    error = posix_fallocate(memory, off_t(first), off_t(length));
  while (error == EINTR);
  if (error != 0)
    fail(bytes, "posix_fallocate", error);
}

HostSegment::HostSegment(HostSegment &&other) noexcept
    : address(std::exchange(other.address, nullptr)),
      bytes(std::exchange(other.bytes, 0)),
      first(std::exchange(other.first, 0)),
      length(std::exchange(other.length, 0)) {}

HostSegment &HostSegment::operator=(HostSegment &&other) noexcept {
  std::swap(address, other.address);
  std::swap(bytes, other.bytes);
  std::swap(first, other.first);
  std::swap(length, other.length);
  return *this;
}

HostSegment::~HostSegment() {
  if (address)
    munmap(address, bytes);
}

} // namespace fcdp
