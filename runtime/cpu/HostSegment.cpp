// SPDX-License-Identifier: Apache-2.0

#include "cpu/HostSegment.h"
#include "core/MemoryError.h"
#include "cpu/MemoryLimit.h"
#include "cpu/SegmentHandover.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <stdexcept>
#include <sys/mman.h>

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
  // A plain ftruncate would raise SIGBUS at the first write for which there is
  // no page.
  int error;
  do
    error = posix_fallocate(memory.get(), 0, off_t(bytes));
  while (error == EINTR);
  if (error != 0)
    fail(bytes, "posix_fallocate", error);
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
}

HostSegment::HostSegment(HostSegment &&other) noexcept
    : address(std::exchange(other.address, nullptr)),
      bytes(std::exchange(other.bytes, 0)) {}

HostSegment &HostSegment::operator=(HostSegment &&other) noexcept {
  std::swap(address, other.address);
  std::swap(bytes, other.bytes);
  return *this;
}

HostSegment::~HostSegment() {
  if (address)
    munmap(address, bytes);
}

} // namespace fcdp
