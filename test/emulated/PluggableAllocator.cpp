// SPDX-License-Identifier: Apache-2.0
//
// The class that programs derive allocators from, which libtorch_cuda has.
// As there, it serves memory by two functions and keeps their sizes.

#include "EmulatedTorch.h"
#include "fake/Machine.h"

#include <torch/csrc/cuda/CUDAPluggableAllocator.h>

namespace torch::cuda::CUDAPluggableAllocator {

using namespace c10::cuda::CUDACachingAllocator;
using c10::DeviceIndex;
using c10::cuda::MempoolId_t;
using Self = CUDAPluggableAllocator;

namespace {

std::shared_ptr<CUDAAllocator> current;

[[noreturn]] void refuse(const char *function) {
  TORCH_CHECK(false, "CUDAPluggableAllocator does not yet support ", function);
  std::abort();
}

void deleteRaw(void *data) { current->raw_delete(data); }

} // namespace

void changeCurrentAllocator(const std::shared_ptr<CUDAAllocator> &allocator) {
  TORCH_CHECK(!c10::cuda::CUDACachingAllocator::allocator.load()->initialized(),
              "Can't swap an already initialized allocator");
  c10::cuda::CUDACachingAllocator::allocator.store(allocator.get());
  current = allocator;
}

_AllocationMetadata::_AllocationMetadata() : size(0), device_idx(-1) {}
_AllocationMetadata::_AllocationMetadata(size_t size, DeviceIndex device,
                                         cudaStream_t stream)
    : size(size), device_idx(device), stream(stream) {}

Self::CUDAPluggableAllocator(
    std::function<void *(size_t, int, cudaStream_t)> allocate,
    std::function<void(void *, size_t, int, cudaStream_t)> release)
    : alloc_fn_(std::move(allocate)), free_fn_(std::move(release)) {}

void *Self::malloc(size_t size, DeviceIndex device, cudaStream_t stream) {
  void *data = alloc_fn_(size, device, stream);
  std::lock_guard<std::mutex> lock(allocator_mutex_);
  allocation_metadata_.emplace(data, _AllocationMetadata(size, device, stream));
  return data;
}

c10::DataPtr Self::allocate(size_t size) {
  void *data = raw_alloc(size);
  return {data, data, raw_deleter(),
          c10::Device(c10::kCUDA, DeviceIndex(fcdp::fake::deviceOfThread()))};
}
c10::DeleterFnPtr Self::raw_deleter() const { return &deleteRaw; }
void *Self::raw_alloc(size_t size) {
  return raw_alloc_with_stream(size, fcdp::emulated::currentStream());
}
void *Self::raw_alloc_with_stream(size_t size, cudaStream_t stream) {
  return malloc(size, DeviceIndex(fcdp::fake::deviceOfThread()), stream);
}
void Self::raw_delete(void *data) {
  _AllocationMetadata made;
  {
    std::lock_guard<std::mutex> lock(allocator_mutex_);
    auto found = allocation_metadata_.find(data);
    TORCH_CHECK(found != allocation_metadata_.end(),
                "Trying to free a pointer not allocated here");
    made = found->second;
    allocation_metadata_.erase(found);
  }
  free_fn_(data, made.size, made.device_idx, made.stream);
}
void Self::init(int) { initialized_ = true; }
bool Self::initialized() { return initialized_; }
std::string Self::name() { return "pluggable"; }

void Self::copy_data(void *, const void *, size_t) const {
  refuse("copy_data");
}
double Self::getMemoryFraction(DeviceIndex) { refuse("getMemoryFraction"); }
void Self::setMemoryFraction(double, DeviceIndex) {
  refuse("setMemoryFraction");
}
std::vector<StreamSegmentSize> Self::getExpandableSegmentSizes(DeviceIndex) {
  refuse("getExpandableSegmentSizes");
}
void Self::emptyCache(MempoolId_t) { refuse("emptyCache"); }
void Self::cacheInfo(DeviceIndex, size_t *) { refuse("cacheInfo"); }
void *Self::getBaseAllocation(void *, size_t *) { refuse("getBaseAllocation"); }
void Self::recordStream(const c10::DataPtr &, c10::cuda::CUDAStream) {
  refuse("recordStream");
}
c10::CachingDeviceAllocator::DeviceStats Self::getDeviceStats(DeviceIndex) {
  refuse("getDeviceStats");
}
void Self::resetAccumulatedStats(DeviceIndex) {
  refuse("resetAccumulatedStats");
}
void Self::resetPeakStats(DeviceIndex) { refuse("resetPeakStats"); }
SnapshotInfo Self::snapshot(MempoolId_t, bool) { refuse("snapshot"); }
void Self::beginAllocateToPool(DeviceIndex, MempoolId_t,
                               std::function<bool(cudaStream_t)>) {
  refuse("beginAllocateToPool");
}
void Self::endAllocateToPool(DeviceIndex, MempoolId_t) {
  refuse("endAllocateToPool");
}
void Self::releasePool(DeviceIndex, MempoolId_t) { refuse("releasePool"); }
std::shared_ptr<void> Self::getIpcDevPtr(std::string) {
  refuse("getIpcDevPtr");
}
ShareableHandle Self::shareIpcHandle(void *) { refuse("shareIpcHandle"); }
void Self::recordHistory(bool, CreateContextFn, size_t, RecordContext, bool,
                         const std::vector<std::string> &) {
  refuse("recordHistory");
}
void Self::attachOutOfMemoryObserver(OutOfMemoryObserver) {
  refuse("attachOutOfMemoryObserver");
}
void Self::attachOomRejectionObserver(OomRejectionObserver) {
  refuse("attachOomRejectionObserver");
}
void Self::attachAllocatorTraceTracker(AllocatorTraceTracker) {
  refuse("attachAllocatorTraceTracker");
}
std::shared_ptr<AllocatorState> Self::getCheckpointState(DeviceIndex,
                                                         MempoolId_t) {
  refuse("getCheckpointState");
}
CheckpointDelta Self::setCheckpointPoolState(DeviceIndex,
                                             std::shared_ptr<AllocatorState>) {
  refuse("setCheckpointPoolState");
}
void Self::enablePeerAccess(DeviceIndex, DeviceIndex) {
  refuse("enablePeerAccess");
}
cudaError_t Self::memcpyAsync(void *, int, const void *, int, size_t,
                              cudaStream_t, bool) {
  refuse("memcpyAsync");
}

} // namespace torch::cuda::CUDAPluggableAllocator
