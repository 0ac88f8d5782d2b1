// SPDX-License-Identifier: Apache-2.0
#include "operators/CpuPool.h"

#include "core/MemoryError.h"
#include "memory/Pool.h"

#include <c10/core/CPUAllocator.h>
#include <c10/core/alignment.h>

namespace fcdp {

namespace {

/// The tag before all memory that libtorch gets. Its maths libraries free
/// memory by its pointer alone, so the tag must record how to free it.
struct Tag {
  c10::DeleterFnPtr release;
  void *context;
};
static_assert(sizeof(Tag) <= kPoolTagBytes &&
              kPoolTagBytes % c10::gAlignment == 0);

void releaseTagged(void *data) {
  if (!data)
    return;
  auto *tag =
      reinterpret_cast<Tag *>(static_cast<std::byte *>(data) - kPoolTagBytes);
  tag->release(tag->context);
}

/// Tags `memory`, whose first bytes are reserved for the tag.
c10::DataPtr tagged(c10::DataPtr memory) {
  auto *base = static_cast<std::byte *>(memory.get());
  c10::DeleterFnPtr release = memory.get_deleter();
  new (base) Tag{release, memory.release_context()};
  std::byte *data = base + kPoolTagBytes;
  return {data, data, &releaseTagged, c10::Device(c10::kCPU)};
}

/// The default CPU allocator, with an error type for a lack of memory.
/// Thread-safe.
class SystemAllocator final : public c10::Allocator {
public:
  c10::DataPtr allocate(size_t bytes) override {
    try {
      return allocator().allocate(bytes);
    } catch (const c10::Error &error) {
      // libtorch has no error type of its own for this.
      throw MemoryError(error.what_without_backtrace());
    }
  }
  c10::DeleterFnPtr raw_deleter() const override {
    return allocator().raw_deleter();
  }
  void copy_data(void *target, const void *source,
                 std::size_t count) const override {
    default_copy_data(target, source, count);
  }

private:
  static c10::Allocator &allocator() { return *c10::GetDefaultCPUAllocator(); }
};

c10::Allocator &system() {
  static SystemAllocator allocator;
  return allocator;
}

/// Replaces libtorch's CPU allocator, and forwards to it allocations that are
/// not for a pool. Thread-safe.
class RoutingAllocator final : public c10::Allocator {
public:
  c10::DataPtr allocate(size_t bytes) override {
    if (bytes == 0)
      return {nullptr, nullptr, &releaseTagged, c10::Device(c10::kCPU)};
    ResultPool *pool = ResultPool::active();
    bool isForPool = pool && pool->device().is_cpu();
    return tagged(isForPool ? pool->allocate(bytes + kPoolTagBytes)
                            : system().allocate(bytes + kPoolTagBytes));
  }
  c10::DeleterFnPtr raw_deleter() const override { return &releaseTagged; }
  void copy_data(void *target, const void *source,
                 std::size_t count) const override {
    default_copy_data(target, source, count);
  }
};

} // namespace

c10::Allocator &routeCpuAllocations() {
  // libtorch never releases the pointer.
  static const bool isInstalled = [] {
    constexpr uint8_t aboveDefault = 1;
    c10::SetCPUAllocator(new RoutingAllocator, aboveDefault);
    return true;
  }();
  (void)isInstalled;
  return system();
}

} // namespace fcdp
