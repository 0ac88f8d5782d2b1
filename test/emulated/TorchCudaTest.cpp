// SPDX-License-Identifier: Apache-2.0
//
// libtorch's allocator of device memory while ours is in front of it. Runs over
// the fake device, with the emulated part for CUDA of libtorch or with its own.

#include "device/TorchCuda.h"

#include "fake/Machine.h"
#include "memory/Pool.h"

#include <ATen/Context.h>
#include <ATen/cuda/CUDAGraph.h>
#include <ATen/ops/add.h>
#include <ATen/ops/empty.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <cstring>
#include <cuda_runtime_api.h>
#include <functional>
#include <gtest/gtest.h>

using namespace fcdp;
using c10::cuda::CUDACachingAllocator::CUDAAllocator;
using fake::Machine;

namespace {

const c10::Device kDevice(c10::kCUDA, 0);
constexpr size_t kBytes = 4 << 20;

CUDAAllocator &current() { return *c10::cuda::CUDACachingAllocator::get(); }

c10::Stream named(cudaStream_t stream) {
  return c10::Stream(c10::Stream::UNSAFE, kDevice,
                     reinterpret_cast<c10::StreamId>(stream));
}

/// Host memory that the device may use, filled with one value.
class Pinned {
public:
  explicit Pinned(unsigned char value) {
    EXPECT_EQ(cudaHostAlloc(&data, kBytes, cudaHostAllocDefault), cudaSuccess);
    std::memset(data, value, kBytes);
  }
  ~Pinned() { EXPECT_EQ(cudaFreeHost(data), cudaSuccess); }
  Pinned(const Pinned &) = delete;
  Pinned &operator=(const Pinned &) = delete;

  void *get() const { return data; }
  unsigned char first() const { return *static_cast<unsigned char *>(data); }

private:
  void *data = nullptr;
};

class TorchCuda : public testing::Test {
protected:
  static void SetUpTestSuite() {
    system = &routeCudaAllocations(Machine::instance().devices);
    at::globalContext().lazyInitDevice(c10::kCUDA);
  }

  void SetUp() override {
    ASSERT_NE(static_cast<c10::Allocator *>(&current()), system);
    for (cudaStream_t *stream : {&compute, &other})
      ASSERT_EQ(cudaStreamCreateWithPriority(stream, cudaStreamNonBlocking, 0),
                cudaSuccess);
    before = guard.exchangeStream(named(compute));
  }
  void TearDown() override {
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    guard.exchangeStream(*before);
    current().emptyCache();
    for (cudaStream_t stream : {compute, other})
      EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  }

  static void copy(void *to, const void *from, cudaStream_t stream) {
    EXPECT_EQ(cudaMemcpyAsync(to, from, kBytes, cudaMemcpyDefault, stream),
              cudaSuccess);
  }
  static int64_t allocated(CUDAAllocator &allocator) {
    return allocator.getDeviceStats(0).allocated_bytes[0].current;
  }
  static uint64_t freeBytes() { return Machine::instance().freeDeviceBytes; }

  static c10::DeviceAllocator *system;
  c10::impl::VirtualGuardImpl guard{c10::kCUDA};
  cudaStream_t compute = nullptr, other = nullptr;
  std::optional<c10::Stream> before;
};

c10::DeviceAllocator *TorchCuda::system = nullptr;

TEST_F(TorchCuda, KeepsMemoryThatAnotherStreamUses) {
  Pinned ones(1), twos(2), read(0);
  c10::DataPtr memory = current().allocate(kBytes);
  copy(memory.get(), ones.get(), compute);
  ASSERT_EQ(cudaStreamSynchronize(compute), cudaSuccess);
  copy(read.get(), memory.get(), other);
  static_cast<c10::DeviceAllocator &>(current()).recordStream(memory,
                                                              named(other));
  memory.clear();
  c10::DataPtr next = current().allocate(kBytes);
  copy(next.get(), twos.get(), compute);
  ASSERT_EQ(cudaStreamSynchronize(compute), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(other), cudaSuccess);
  EXPECT_EQ(read.first(), 1);
}

TEST_F(TorchCuda, GivesMemoryToTheStreamThatHadItOnly) {
  c10::DataPtr memory = current().allocate(kBytes);
  void *place = memory.get();
  memory.clear();
  guard.exchangeStream(named(other));
  c10::DataPtr ofOther = current().allocate(kBytes);
  EXPECT_NE(ofOther.get(), place);
  guard.exchangeStream(named(compute));
  EXPECT_EQ(current().allocate(kBytes).get(), place);
}

TEST_F(TorchCuda, ReturnsWhatItDoesNotUse) {
  current().emptyCache();
  uint64_t most = freeBytes();
  current().allocate(64 << 20).clear();
  EXPECT_LE(freeBytes(), most - (64 << 20));
  current().emptyCache();
  EXPECT_EQ(freeBytes(), most);
}

TEST_F(TorchCuda, CountsMemory) {
  current().resetPeakStats(0);
  int64_t atFirst = allocated(current());
  EXPECT_EQ(atFirst, allocated(static_cast<CUDAAllocator &>(*system)));
  c10::DataPtr tensor = current().allocate(kBytes);
  void *raw = current().raw_alloc(kBytes);
  EXPECT_EQ(allocated(current()), atFirst + 2 * int64_t(kBytes));
  current().raw_delete(raw);
  tensor.clear();
  EXPECT_EQ(allocated(current()), atFirst);
  EXPECT_EQ(current().getDeviceStats(0).allocated_bytes[0].peak,
            atFirst + 2 * int64_t(kBytes));
}

TEST_F(TorchCuda, SaysHowMuchMemoryTheDeviceHas) {
  auto [free, total] = current().getMemoryInfo(0);
  EXPECT_EQ(free, freeBytes());
  EXPECT_EQ(total, freeBytes() + Machine::instance().deviceBytes);
}

TEST_F(TorchCuda, GivesMemoryOfGraphsToNobodyElse) {
  c10::cuda::MempoolId_t pool = at::cuda::graph_pool_handle();
  current().beginAllocateToPool(
      0, pool, [own = compute](cudaStream_t stream) { return stream == own; });
  c10::DataPtr inGraph = current().allocate(kBytes);
  void *place = inGraph.get();
  inGraph.clear();
  EXPECT_EQ(current().allocate(kBytes).get(), place);
  current().endAllocateToPool(0, pool);
  c10::DataPtr outside = current().allocate(kBytes);
  EXPECT_NE(outside.get(), place);
  current().releasePool(0, pool);
}

/// Two steps of one function, over an arena of the device.
TEST_F(TorchCuda, PutsResultsIntoTheArenaAndRawMemoryElsewhere) {
  constexpr size_t arenaBytes = 1 << 20;
  void *arena = nullptr;
  ASSERT_EQ(cudaMalloc(&arena, arenaBytes), cudaSuccess);
  auto *base = static_cast<std::byte *>(arena);
  {
    ResultPool pool({.base = base, .bytes = arenaBytes, .device = kDevice},
                    *system);
    for (int step = 0; step < 2; ++step) {
      pool.beginStep();
      {
        ResultPool::Scope scope(pool);
        at::Tensor result =
            at::empty({1000}, at::TensorOptions(kDevice).dtype(at::kFloat));
        at::Tensor sum = at::add(result, 1);
        for (at::Tensor &tensor : {std::ref(result), std::ref(sum)}) {
          auto *place = static_cast<std::byte *>(tensor.mutable_data_ptr());
          // The first step is recorded.
          EXPECT_EQ(place >= base && place + 4000 <= base + arenaBytes,
                    step == 1);
        }
        auto *raw = static_cast<std::byte *>(current().raw_alloc(1000));
        EXPECT_FALSE(raw >= base && raw < base + arenaBytes);
        current().raw_delete(raw);
        EXPECT_EQ(cudaStreamSynchronize(compute), cudaSuccess);
      }
      pool.endStep();
    }
  }
  EXPECT_EQ(cudaFree(arena), cudaSuccess);
}

} // namespace
