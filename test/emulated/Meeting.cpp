// SPDX-License-Identifier: Apache-2.0

#include "Meeting.h"

#include <fcntl.h>
#include <stdexcept>
#include <sys/mman.h>
#include <system_error>
#include <unistd.h>

namespace fcdp::emulated {
namespace {

constexpr size_t kHeaderBytes = 4096;
static_assert(sizeof(RankState) * Meeting::mostRanks <= kHeaderBytes);
constexpr size_t kAllBytes =
    kHeaderBytes + Meeting::mostRanks * Meeting::messageBytes;

[[noreturn]] void fail(const std::string &what) {
  throw std::system_error(errno, std::generic_category(), what);
}

} // namespace

std::string Meeting::make() {
  // It stays open, because others open it by the number of this process.
  int file = memfd_create("fcdp-emulated-nccl", MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, off_t(kAllBytes)) != 0)
    fail("memory of a communicator");
  return "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(file);
}

Meeting::Meeting(const std::string &name) {
  int file = open(name.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0)
    fail(name);
  void *mapped = mmap(nullptr, kAllBytes, PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_NORESERVE, file, 0);
  close(file);
  if (mapped == MAP_FAILED)
    fail("mmap of " + name);
  base = static_cast<std::byte *>(mapped);
}

Meeting::~Meeting() { munmap(base, kAllBytes); }

RankState &Meeting::state(size_t rank) const {
  return reinterpret_cast<RankState *>(base)[rank];
}

std::span<std::byte> Meeting::message(size_t rank) const {
  return {base + kHeaderBytes + rank * messageBytes, messageBytes};
}

} // namespace fcdp::emulated
