// SPDX-License-Identifier: Apache-2.0
//
// libtorch's caching allocator, as far as programs can see it: freed memory is
// not returned to CUDA, and the next allocation of its size on its stream gets
// it at once. Graphs have pools of their own.

#include "EmulatedTorch.h"
#include "fake/Machine.h"

#include <ATen/cuda/CUDAGraph.h>
#include <cuda_runtime_api.h>
#include <map>
#include <mutex>
#include <set>
#include <tuple>
#include <unordered_map>

namespace fcdp::emulated {
namespace {

using namespace c10::cuda::CUDACachingAllocator;
using c10::DeviceIndex;
using c10::MempoolId_t;
using c10::CachingAllocator::Stat;
using c10::CachingAllocator::StatType;

/// The size of the smallest block; all are multiples of it.
constexpr size_t kBlockBytes = 512;

[[noreturn]] void refuse(const char *function) {
  TORCH_CHECK(false, function, " is not emulated");
  std::abort();
}

/// Thread-safe.
class CachingAllocator final : public CUDAAllocator {
public:
  c10::DataPtr allocate(size_t bytes) override {
    c10::Device device(c10::kCUDA, DeviceIndex(fake::deviceOfThread()));
    void *data = bytes ? raw_alloc(bytes) : nullptr;
    return {data, data, raw_deleter(), device};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &deleteRaw; }
  void copy_data(void *, const void *, size_t) const override {
    refuse("copy_data");
  }
  void *raw_alloc(size_t bytes) override {
    return raw_alloc_with_stream(bytes, currentStream());
  }
  void *raw_alloc_with_stream(size_t bytes, cudaStream_t stream) override;
  void raw_delete(void *data) override;
  void init(int devices) override { numDevices = devices; }
  bool initialized() override { return numDevices != 0; }

  c10::CachingDeviceAllocator::DeviceStats
  getDeviceStats(DeviceIndex device) override {
    std::lock_guard<std::mutex> lock(mutex);
    return stats[device];
  }
  void resetPeakStats(DeviceIndex device) override {
    std::lock_guard<std::mutex> lock(mutex);
    Stat &bytes = allocatedBytes(device);
    bytes.peak = bytes.current;
  }
  void beginAllocateToPool(DeviceIndex device, MempoolId_t id,
                           std::function<bool(cudaStream_t)> filter) override {
    std::lock_guard<std::mutex> lock(mutex);
    captures[{device, id}] = std::move(filter);
  }
  void endAllocateToPool(DeviceIndex device, MempoolId_t id) override {
    std::lock_guard<std::mutex> lock(mutex);
    captures.erase({device, id});
  }
  void emptyCache(MempoolId_t) override;
  // Graphs that use the pool may still be in a stream.
  void releasePool(DeviceIndex, MempoolId_t) override {}
  std::string name() override { return "emulated"; }

  void recordStream(const c10::DataPtr &data,
                    c10::cuda::CUDAStream stream) override;
  void resetAccumulatedStats(DeviceIndex) override {
    refuse("resetAccumulatedStats");
  }
  double getMemoryFraction(DeviceIndex) override {
    refuse("getMemoryFraction");
  }
  void setMemoryFraction(double, DeviceIndex) override {
    refuse("setMemoryFraction");
  }
  std::vector<StreamSegmentSize>
  getExpandableSegmentSizes(DeviceIndex) override {
    refuse("getExpandableSegmentSizes");
  }
  void enable(bool) override { refuse("enable"); }
  bool isEnabled() const override { return true; }
  void cacheInfo(DeviceIndex, size_t *) override { refuse("cacheInfo"); }
  void *getBaseAllocation(void *, size_t *) override {
    refuse("getBaseAllocation");
  }
  SnapshotInfo snapshot(MempoolId_t, bool) override { refuse("snapshot"); }
  ShareableHandle shareIpcHandle(void *) override { refuse("shareIpcHandle"); }
  std::shared_ptr<void> getIpcDevPtr(std::string) override {
    refuse("getIpcDevPtr");
  }
  void recordHistory(bool, CreateContextFn, size_t, RecordContext, bool,
                     const std::vector<std::string> &) override {
    refuse("recordHistory");
  }
  void attachOutOfMemoryObserver(OutOfMemoryObserver) override {
    refuse("attachOutOfMemoryObserver");
  }
  void attachOomRejectionObserver(OomRejectionObserver) override {
    refuse("attachOomRejectionObserver");
  }
  void attachAllocatorTraceTracker(AllocatorTraceTracker) override {
    refuse("attachAllocatorTraceTracker");
  }
  void enablePeerAccess(DeviceIndex, DeviceIndex) override {
    refuse("enablePeerAccess");
  }
  cudaError_t memcpyAsync(void *, int, const void *, int, size_t, cudaStream_t,
                          bool) override {
    refuse("memcpyAsync");
  }
  std::shared_ptr<AllocatorState> getCheckpointState(DeviceIndex,
                                                     MempoolId_t) override {
    refuse("getCheckpointState");
  }
  CheckpointDelta
  setCheckpointPoolState(DeviceIndex,
                         std::shared_ptr<AllocatorState>) override {
    refuse("setCheckpointPoolState");
  }

private:
  /// Memory is used again only on the device, on the stream, in the pool and
  /// for the size that it was made for.
  using Kind = std::tuple<DeviceIndex, cudaStream_t, MempoolId_t, size_t>;

  static void deleteRaw(void *data) {
    if (data)
      cachingAllocator().raw_delete(data);
  }
  MempoolId_t poolOf(DeviceIndex device, cudaStream_t stream) const {
    for (auto &[capture, takes] : captures)
      if (capture.first == device && takes(stream))
        return capture.second;
    return {0, 0};
  }
  void *makeBlock(DeviceIndex device, size_t bytes);
  void reuseAwaited();
  Stat &allocatedBytes(DeviceIndex device) {
    return stats[device].allocated_bytes[size_t(StatType::AGGREGATE)];
  }

  std::mutex mutex;
  int numDevices = 0;
  std::map<std::pair<DeviceIndex, MempoolId_t>,
           std::function<bool(cudaStream_t)>>
      captures;
  std::map<Kind, std::vector<void *>> unused;
  std::unordered_map<void *, Kind> inUse;
  /// Other streams that use a block, and points in them after which a block
  /// that is freed is unused.
  std::unordered_map<void *, std::set<cudaStream_t>> users;
  std::vector<std::tuple<void *, Kind, std::vector<fake::Point>>> awaited;
  std::map<DeviceIndex, c10::CachingDeviceAllocator::DeviceStats> stats;
};

void *CachingAllocator::makeBlock(DeviceIndex device, size_t bytes) {
  void *data = nullptr;
  cudaError_t made = cudaMalloc(&data, bytes);
  TORCH_CHECK_WITH(OutOfMemoryError, made == cudaSuccess,
                   "the emulated device has no ", bytes, " bytes left");
  ++stats[device].num_device_alloc;
  return data;
}

void *CachingAllocator::raw_alloc_with_stream(size_t bytes,
                                              cudaStream_t stream) {
  std::lock_guard<std::mutex> lock(mutex);
  auto device = DeviceIndex(fake::deviceOfThread());
  size_t size = (bytes + kBlockBytes - 1) / kBlockBytes * kBlockBytes;
  Kind kind{device, stream, poolOf(device, stream), size};
  reuseAwaited();
  std::vector<void *> &fitting = unused[kind];
  void *data = nullptr;
  if (fitting.empty()) {
    data = makeBlock(device, size);
  } else {
    data = fitting.back();
    fitting.pop_back();
  }
  inUse.emplace(data, kind);
  allocatedBytes(device).increase(size);
  return data;
}

void CachingAllocator::emptyCache(MempoolId_t) {
  // As cudaFree does on a device.
  synchronizeDevice();
  std::lock_guard<std::mutex> lock(mutex);
  for (auto &[kind, blocks] : unused) {
    // Graphs use the memory of their pools at each launch.
    if (std::get<MempoolId_t>(kind) != MempoolId_t{0, 0})
      continue;
    for (void *block : blocks)
      (void)cudaFree(block);
    blocks.clear();
  }
}

void CachingAllocator::recordStream(const c10::DataPtr &data,
                                    c10::cuda::CUDAStream stream) {
  std::lock_guard<std::mutex> lock(mutex);
  if (inUse.count(data.get()))
    users[data.get()].insert(reinterpret_cast<cudaStream_t>(stream.id()));
}

void CachingAllocator::reuseAwaited() {
  fake::Machine &machine = fake::Machine::instance();
  std::lock_guard<std::recursive_mutex> lock(machine.mutex);
  std::erase_if(awaited, [&](const auto &freed) {
    const auto &[data, kind, points] = freed;
    for (const fake::Point &point : points)
      if (!machine.isDone(point))
        return false;
    unused[kind].push_back(data);
    return true;
  });
}

void CachingAllocator::raw_delete(void *data) {
  std::lock_guard<std::mutex> lock(mutex);
  auto found = inUse.find(data);
  TORCH_CHECK(found != inUse.end(), "memory that is not allocated is freed");
  if (auto used = users.extract(data)) {
    std::lock_guard<std::recursive_mutex> lock(fake::Machine::instance().mutex);
    std::vector<fake::Point> points;
    for (cudaStream_t user : used.mapped())
      points.push_back({fake::streamOf(user), fake::streamOf(user)->issued});
    awaited.emplace_back(data, found->second, std::move(points));
  } else {
    unused[found->second].push_back(data);
  }
  allocatedBytes(std::get<DeviceIndex>(found->second))
      .decrease(std::get<size_t>(found->second));
  inUse.erase(found);
}

} // namespace

CUDAAllocator &cachingAllocator() {
  // Tensors of static lifetime free memory at the end of the process.
  static auto *made = new CachingAllocator;
  return *made;
}

} // namespace fcdp::emulated

namespace c10::cuda::CUDACachingAllocator {
std::atomic<CUDAAllocator *> allocator{nullptr};
} // namespace c10::cuda::CUDACachingAllocator

namespace {
[[maybe_unused]] const bool isSet = [] {
  auto &system = fcdp::emulated::cachingAllocator();
  c10::cuda::CUDACachingAllocator::allocator = &system;
  c10::SetAllocator(c10::kCUDA, &system);
  return true;
}();
} // namespace

namespace c10::cuda {
void c10_cuda_check_implementation(int32_t error, const char *, const char *,
                                   uint32_t, bool) {
  TORCH_CHECK(error == cudaSuccess, "CUDA error ", error);
}
} // namespace c10::cuda

namespace at::cuda {
MempoolId_t graph_pool_handle() {
  static std::atomic<CaptureId_t> next{1};
  return {0, next++};
}
} // namespace at::cuda
