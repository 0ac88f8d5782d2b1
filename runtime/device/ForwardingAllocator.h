// SPDX-License-Identifier: Apache-2.0
//
// A base class for allocators that replace libtorch's own.
#pragma once

#include <torch/csrc/cuda/CUDAPluggableAllocator.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace fcdp {

using c10::cuda::CUDACachingAllocator::CUDAAllocator;

/// Reports the beginning or end of a capture to an allocator. libtorch needs
/// this from version 2.13 on.
template <typename Allocator>
void markCapture(Allocator &allocator, c10::DeviceIndex device, bool begins) {
  if constexpr (requires { allocator.markCaptureBegin(device); }) {
    if (begins)
      allocator.markCaptureBegin(device);
    else
      allocator.markCaptureEnd(device);
  }
}

/// libtorch's class for allocators of programs. It allocates by two functions,
/// which here are those of `system`.
class AllocatorOfSystem
    : public torch::cuda::CUDAPluggableAllocator::CUDAPluggableAllocator {
public:
  explicit AllocatorOfSystem(CUDAAllocator &system)
      : CUDAPluggableAllocator(
            [&system](size_t bytes, int, cudaStream_t stream) {
              return system.raw_alloc_with_stream(bytes, stream);
            },
            [&system](void *data, size_t, int, cudaStream_t) {
              system.raw_delete(data);
            }),
        system(system) {}

  // These override functions of libtorch since 2.13, and none before. A
  // compiler requires the mark `override` if another function of the class has
  // it.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsuggest-override"
  void markCaptureBegin(c10::DeviceIndex device) {
    markCapture(system, device, true);
  }
  void markCaptureEnd(c10::DeviceIndex device) {
    markCapture(system, device, false);
  }
#pragma GCC diagnostic pop

protected:
  CUDAAllocator &system;
};

/// Forwards all that libtorch needs of its allocator to `system`. The base
/// class leaves some functions empty: memory that another stream still uses
/// would then be allocated again, and a graph's memory would be given to other
/// users. Memory that does not come from `system` is unknown to it, and is not
/// recorded on streams. Thread-safe.
class ForwardingAllocator : public AllocatorOfSystem {
  using Device = c10::DeviceIndex;
  using Pool = c10::cuda::MempoolId_t;

public:
  using AllocatorOfSystem::AllocatorOfSystem;

  c10::DataPtr allocate(size_t bytes) override {
    return system.allocate(bytes);
  }
  c10::DeleterFnPtr raw_deleter() const override {
    return system.raw_deleter();
  }
  void *raw_alloc(size_t bytes) override { return system.raw_alloc(bytes); }
  void *raw_alloc_with_stream(size_t bytes, cudaStream_t stream) override {
    return system.raw_alloc_with_stream(bytes, stream);
  }
  void raw_delete(void *data) override { system.raw_delete(data); }
  void init(int devices) override { system.init(devices); }
  bool initialized() override { return system.initialized(); }
  void enable(bool value) override { system.enable(value); }
  bool isEnabled() const override { return system.isEnabled(); }

  // Functions on memory that is in use, and that is cached.
  void emptyCache(Pool pool = {0, 0}) override { system.emptyCache(pool); }
  void cacheInfo(Device device, size_t *largest) override {
    system.cacheInfo(device, largest);
  }
  void *getBaseAllocation(void *data, size_t *bytes) override {
    return system.getBaseAllocation(data, bytes);
  }
  double getMemoryFraction(Device device) override {
    return system.getMemoryFraction(device);
  }
  void setMemoryFraction(double fraction, Device device) override {
    system.setMemoryFraction(fraction, device);
  }
  std::vector<c10::cuda::CUDACachingAllocator::StreamSegmentSize>
  getExpandableSegmentSizes(Device device) override {
    return system.getExpandableSegmentSizes(device);
  }
  c10::CachingDeviceAllocator::DeviceStats
  getDeviceStats(Device device) override {
    return system.getDeviceStats(device);
  }
  void resetAccumulatedStats(Device device) override {
    system.resetAccumulatedStats(device);
  }
  void resetPeakStats(Device device) override { system.resetPeakStats(device); }

  // Functions on streams.
  using CUDAAllocator::recordStream;
  void recordStream(const c10::DataPtr &data,
                    c10::cuda::CUDAStream stream) override {
    system.recordStream(data, stream);
  }

  // Functions on memory of graphs, and on pools of a program.
  void beginAllocateToPool(Device device, Pool pool,
                           std::function<bool(cudaStream_t)> filter) override {
    system.beginAllocateToPool(device, pool, std::move(filter));
  }
  void endAllocateToPool(Device device, Pool pool) override {
    system.endAllocateToPool(device, pool);
  }
  void releasePool(Device device, Pool pool) override {
    system.releasePool(device, pool);
  }
  int getPoolUseCount(Device device, Pool pool) override {
    return system.getPoolUseCount(device, pool);
  }
  void createOrIncrefPool(Device device, Pool pool,
                          std::shared_ptr<CUDAAllocator> allocator) override {
    system.createOrIncrefPool(device, pool, std::move(allocator));
  }
  void setUseOnOOM(Device device, Pool pool, bool value) override {
    system.setUseOnOOM(device, pool, value);
  }
  void setNoSplit(Device device, Pool pool) override {
    system.setNoSplit(device, pool);
  }
  bool checkPoolLiveAllocations(
      Device device, Pool pool,
      const std::unordered_set<void *> &expected) override {
    return system.checkPoolLiveAllocations(device, pool, expected);
  }
  std::shared_ptr<c10::cuda::CUDACachingAllocator::AllocatorState>
  getCheckpointState(Device device, Pool pool) override {
    return system.getCheckpointState(device, pool);
  }
  c10::cuda::CUDACachingAllocator::CheckpointDelta setCheckpointPoolState(
      Device device,
      std::shared_ptr<c10::cuda::CUDACachingAllocator::AllocatorState> state)
      override {
    return system.setCheckpointPoolState(device, std::move(state));
  }

  // Functions on other devices and processes.
  void enablePeerAccess(Device device, Device peer) override {
    system.enablePeerAccess(device, peer);
  }
  cudaError_t memcpyAsync(void *to, int toDevice, const void *from,
                          int fromDevice, size_t bytes, cudaStream_t stream,
                          bool hasPeerAccess) override {
    return system.memcpyAsync(to, toDevice, from, fromDevice, bytes, stream,
                              hasPeerAccess);
  }
  std::shared_ptr<void> getIpcDevPtr(std::string handle) override {
    return system.getIpcDevPtr(std::move(handle));
  }
  c10::cuda::CUDACachingAllocator::ShareableHandle
  shareIpcHandle(void *data) override {
    return system.shareIpcHandle(data);
  }

  // Functions for memory profilers.
  c10::cuda::CUDACachingAllocator::SnapshotInfo
  snapshot(Pool pool, bool includesTraces) override {
    return system.snapshot(pool, includesTraces);
  }
  bool isHistoryEnabled() override { return system.isHistoryEnabled(); }
  void
  recordHistory(bool isEnabled,
                c10::cuda::CUDACachingAllocator::CreateContextFn makeContext,
                size_t mostEntries,
                c10::cuda::CUDACachingAllocator::RecordContext when,
                bool clears, const std::vector<std::string> &skipped) override {
    system.recordHistory(isEnabled, makeContext, mostEntries, when, clears,
                         skipped);
  }
  void attachOutOfMemoryObserver(
      c10::cuda::CUDACachingAllocator::OutOfMemoryObserver observer) override {
    system.attachOutOfMemoryObserver(std::move(observer));
  }
  void attachAllocatorTraceTracker(
      c10::cuda::CUDACachingAllocator::AllocatorTraceTracker tracker) override {
    system.attachAllocatorTraceTracker(std::move(tracker));
  }
};

} // namespace fcdp
