// SPDX-License-Identifier: Apache-2.0
//
// The calls of libcudart that make, free, copy and set memory.

#include "Checker.h"

#include <atomic>
#include <cuda_runtime_api.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

using namespace fcdp::contracts;

namespace {

std::atomic<bool> hasPinned{false};

cudaError_t made(Checker &rules, std::unique_lock<std::mutex> &lock,
                 MemoryKind kind, const void *base, size_t bytes,
                 cudaError_t result) {
  if (result != cudaSuccess || !bytes)
    return result;
  hasPinned = hasPinned || kind == MemoryKind::PinnedHost;
  lock.lock();
  rules.memory.made(kind, base, bytes);
  return result;
}

/// Memory that the checker has not seen being made, e.g. by the driver's
/// functions, is asked about.
bool isKnownToCuda(const void *address) {
  auto *query = reinterpret_cast<decltype(&::cudaPointerGetAttributes)>(
      findInCudart("cudaPointerGetAttributes"));
  cudaPointerAttributes attributes{};
  return query && query(&attributes, address) == cudaSuccess &&
         attributes.type != cudaMemoryTypeUnregistered;
}

/// Checks the memory of a call. Returns nothing for memory of which nothing
/// more is known.
std::optional<Span> find(Checker &rules, std::unique_lock<std::mutex> &lock,
                         const void *address, size_t bytes,
                         bool mayBePageable) {
  if (!bytes)
    return std::nullopt;
  if (!rules.memory.isKnown(address)) {
    lock.unlock();
    bool isAllowed = mayBePageable || isKnownToCuda(address);
    lock.lock();
    if (isAllowed)
      return std::nullopt;
  }
  return rules.memory.requireLive(address, bytes);
}

void requireSafe(Checker &rules) {
  rules.captures.requireSafe(std::this_thread::get_id(), captureModeOfThread());
}

} // namespace

extern "C" {

cudaError_t cudaSetDevice(int device) {
  FCDP_CHECK_CALL(cudaSetDevice);
  lock.unlock();
  cudaError_t result = real(device);
  if (result == cudaSuccess)
    setDeviceOfThread(device);
  return result;
}

cudaError_t cudaMalloc(void **address, size_t bytes) {
  FCDP_CHECK_CALL(cudaMalloc);
  requireSafe(rules);
  lock.unlock();
  cudaError_t result = real(address, bytes);
  return made(rules, lock, MemoryKind::Device, *address, bytes, result);
}

cudaError_t cudaFree(void *address) {
  FCDP_CHECK_CALL(cudaFree);
  requireSafe(rules);
  rules.release(address, call.isFromLibtorch());
  lock.unlock();
  return real(address);
}

cudaError_t cudaHostAlloc(void **address, size_t bytes, unsigned flags) {
  FCDP_CHECK_CALL(cudaHostAlloc);
  requireSafe(rules);
  lock.unlock();
  cudaError_t result = real(address, bytes, flags);
  return made(rules, lock, MemoryKind::PinnedHost, *address, bytes, result);
}

cudaError_t cudaFreeHost(void *address) {
  FCDP_CHECK_CALL(cudaFreeHost);
  requireSafe(rules);
  rules.release(address, call.isFromLibtorch());
  lock.unlock();
  return real(address);
}

cudaError_t cudaHostRegister(void *address, size_t bytes, unsigned flags) {
  FCDP_CHECK_CALL(cudaHostRegister);
  requireSafe(rules);
  lock.unlock();
  cudaError_t result = real(address, bytes, flags);
  return made(rules, lock, MemoryKind::PinnedHost, address, bytes, result);
}

cudaError_t cudaHostUnregister(void *address) {
  FCDP_CHECK_CALL(cudaHostUnregister);
  requireSafe(rules);
  rules.release(address, false);
  lock.unlock();
  return real(address);
}

/// libtorch also copies pageable memory, outside of captures, and waits.
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes,
                            cudaMemcpyKind kind, cudaStream_t stream) {
  FCDP_CHECK_CALL(cudaMemcpyAsync);
  Handle on = handleOf(stream);
  Use use{"cudaMemcpyAsync", {}, nullptr};
  bool mayBePageable = !rules.captures.isCaptured(on) && call.isFromLibtorch();
  for (const void *one : {static_cast<const void *>(to), from})
    if (auto span = find(rules, lock, one, bytes, mayBePageable))
      use.memory.push_back(*span);
  ++rules.counts.copies;
  Point point = rules.issue(on, std::move(use));
  lock.unlock();
  cudaError_t result = real(to, from, bytes, kind, stream);
  if (result != cudaSuccess && point.stream) {
    lock.lock();
    rules.work.cancel(point);
  }
  return result;
}

/// Returns before the memory is set.
cudaError_t cudaMemset(void *address, int value, size_t bytes) {
  FCDP_CHECK_CALL(cudaMemset);
  requireSafe(rules);
  if (auto span = find(rules, lock, address, bytes, /*mayBePageable=*/false))
    rules.issue(handleOf(nullptr), {"cudaMemset", {*span}});
  lock.unlock();
  return real(address, value, bytes);
}

int munmap(void *address, size_t bytes) noexcept {
  // Allocators call it, also inside of a checked call.
  if (hasPinned && !Call::current()) {
    Call call("munmap", __builtin_return_address(0));
    // When the process ends, the driver unmaps what it has pinned.
    if (!call.isFromDriver()) {
      std::lock_guard<std::mutex> lock(checker().mutex);
      checker().memory.requireUnpinned(spanOf(address, bytes));
    }
  }
  return int(syscall(SYS_munmap, address, bytes));
}

} // extern "C"
