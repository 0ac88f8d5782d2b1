// SPDX-License-Identifier: Apache-2.0

#include "cuda/HostCache.h"
#include "cpu/MemoryLimit.h"
#include "cuda/NumaPlacement.h"

#include <stdexcept>
#include <sys/resource.h>
#include <unistd.h>

namespace fcdp {
namespace {

uint64_t pageBytes() { return uint64_t(sysconf(_SC_PAGESIZE)); }

uint64_t roundUpToPage(uint64_t bytes) {
  return (bytes + pageBytes() - 1) / pageBytes() * pageBytes();
}

/// Returns the limit on locked memory of this process, in words.
std::string describeLockLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0)
    return "unknown";
  return limit.rlim_cur == RLIM_INFINITY
             ? "unlimited"
             : std::to_string(limit.rlim_cur) + " bytes";
}

bool isAboveLockLimit(uint64_t bytes) {
  rlimit limit{};
  return getrlimit(RLIMIT_MEMLOCK, &limit) == 0 &&
         limit.rlim_cur != RLIM_INFINITY && bytes > limit.rlim_cur;
}

/// Throws an error that names the limit. Drivers differ in whether they count
/// locked memory against it, so locking is tried first.
[[noreturn]] void failLocking(uint64_t bytes, const std::string &text) {
  std::string message = "cannot lock " + std::to_string(bytes) +
                        " bytes of the host cache in memory: " + text + "; " +
                        std::to_string(availableMemory()) +
                        " bytes of memory are available, RLIMIT_MEMLOCK is " +
                        describeLockLimit();
  if (isAboveLockLimit(bytes))
    message += ": raise it (ulimit -l unlimited, or LimitMEMLOCK=infinity of "
               "the service that starts the ranks)";
  throw std::runtime_error(message);
}

std::optional<uint32_t> numaNodeOfDevice(const CudaLibrary &cuda, int device) {
  char address[32] = {};
  if (cuda.cudaDeviceGetPCIBusId(address, sizeof(address), device) !=
      cudaSuccess)
    return std::nullopt;
  return numaNodeOf(address);
}

} // namespace

CudaHostCache::CudaHostCache(std::shared_ptr<const CudaLibrary> givenCuda,
                             const HostCacheOptions &options)
    : cuda(std::move(givenCuda)), bytes(options.segment.bytes) {
  if (bytes == 0)
    return;
  cuda->useDevice(options.device);
  HostSegmentOptions whole = options.segment;
  whole.bytes = roundUpToPage(bytes);
  // Placing is best effort: memory on another node is slower but correct.
  if (std::optional<uint32_t> node = numaNodeOfDevice(*cuda, options.device))
    whole.place = [node](std::byte *base, uint64_t size) {
      (void)preferNumaNode(base, size, *node);
    };
  segment = HostSegment(whole);
  if (options.meet)
    options.meet();
  std::span<std::byte> own = segment.pages();
  if (own.empty())
    return;
  try {
    cuda->check(cuda->cudaHostRegister(own.data(), own.size(),
                                       cudaHostRegisterPortable |
                                           cudaHostRegisterMapped),
                "cudaHostRegister");
  } catch (const std::runtime_error &error) {
    uint64_t locked = own.size();
    segment = HostSegment();
    failLocking(locked, error.what());
  }
}

CudaHostCache &CudaHostCache::operator=(CudaHostCache &&other) noexcept {
  std::swap(cuda, other.cuda);
  std::swap(segment, other.segment);
  std::swap(bytes, other.bytes);
  return *this;
}

CudaHostCache::~CudaHostCache() {
  if (!segment.pages().empty())
    (void)cuda->cudaHostUnregister(segment.pages().data());
}

} // namespace fcdp
