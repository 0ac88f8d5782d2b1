// SPDX-License-Identifier: Apache-2.0

#include "Machine.h"

#include <algorithm>
#include <cstdlib>
#include <sys/mman.h>

namespace fcdp::fake {

Machine &Machine::instance() {
  static Machine machine;
  return machine;
}

std::shared_ptr<Stream> Machine::makeStream(int device, int priority) {
  auto stream = std::make_shared<Stream>(device, priority);
  streams.push_back(stream);
  return stream;
}

void Machine::forget(const std::shared_ptr<Stream> &stream) {
  std::erase(streams, stream);
}

Point Machine::enqueue(const std::shared_ptr<Stream> &stream, Command command,
                       double seconds) {
  if (doesNothing) {
    stream->done = ++stream->issued;
    return {stream, stream->done};
  }
  stream->queue.push_back({std::move(command), seen, seconds});
  return {stream, ++stream->issued};
}

bool Machine::advance(const std::shared_ptr<Stream> &stream,
                      uint64_t position) {
  while (stream->done < position) {
    // A caller further up runs this stream and waits for us, so it cannot
    // advance here.
    if (stream->isRunning)
      return false;
    stream->isRunning = true;
    // The queue may grow while the command runs.
    double seconds = stream->queue.front().seconds;
    stream->time = std::max(stream->time, stream->queue.front().issued);
    bool ran = stream->queue.front().run();
    stream->isRunning = false;
    if (!ran)
      return false;
    stream->time += seconds;
    stream->queue.pop_front();
    ++stream->done;
  }
  return true;
}

void Machine::runOthers() {
  for (size_t i = 0; i < 2 * streams.size(); ++i) {
    const auto &stream = streams[random() % streams.size()];
    uint64_t left = stream->issued - stream->done;
    if (left)
      advance(stream, stream->done + 1 + random() % left);
  }
}

void Machine::runAhead() {
  if (streams.empty())
    return;
  auto stream = streams[seed % streams.size()];
  advance(stream, stream->issued);
}

uint32_t Machine::numberOf(const std::shared_ptr<Stream> &stream) const {
  return uint32_t(std::find(streams.begin(), streams.end(), stream) -
                  streams.begin());
}

bool Machine::isDone(const Point &point) {
  bool isLeft = point.stream && point.stream->done < point.position;
  if (policy == Policy::Shuffled && isLeft)
    runOthers();
  if (policy == Policy::Ahead)
    runAhead();
  bool isReached = advance(point);
  if (isReached && point.stream)
    seen = std::max(seen, point.stream->time);
  return isReached;
}

bool Machine::isIdle() {
  bool isIdle = true;
  for (const auto &stream : std::vector(streams))
    isIdle &= isDone(stream);
  return isIdle;
}

void *Machine::allocate(size_t bytes, bool isShared) {
  if (bytes > freeDeviceBytes)
    return nullptr;
  void *shown = mmap(nullptr, bytes, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (shown == MAP_FAILED)
    return nullptr;
  // As on a device, memory is aligned and not zeroed.
  constexpr size_t alignment = 256;
  auto *storage = static_cast<std::byte *>(std::aligned_alloc(
      alignment, (bytes + alignment - 1) / alignment * alignment));
  std::fill(storage, storage + bytes, std::byte(0xa5));
  device[static_cast<std::byte *>(shown)] = {bytes, storage, isShared};
  freeDeviceBytes -= bytes;
  deviceBytes += bytes;
  return shown;
}

bool Machine::release(void *address) {
  auto found = device.find(static_cast<std::byte *>(address));
  if (found == device.end())
    return false;
  freeDeviceBytes += found->second.bytes;
  deviceBytes -= found->second.bytes;
  std::free(found->second.storage);
  munmap(address, found->second.bytes);
  device.erase(found);
  return true;
}

void Machine::pin(void *address, size_t bytes) {
  auto *base = static_cast<std::byte *>(address);
  host[base] = {bytes, base};
  pinnedBytes += bytes;
}

bool Machine::unpin(void *address) {
  auto found = host.find(static_cast<std::byte *>(address));
  if (found == host.end())
    return false;
  pinnedBytes -= found->second.bytes;
  host.erase(found);
  return true;
}

const Machine::Region *
Machine::find(const std::map<const std::byte *, Region> &regions,
              const void *address, size_t bytes, size_t &offset) {
  auto *byte = static_cast<const std::byte *>(address);
  auto after = regions.upper_bound(byte);
  if (after == regions.begin())
    return nullptr;
  auto &[base, region] = *std::prev(after);
  offset = size_t(byte - base);
  return offset <= region.bytes && bytes <= region.bytes - offset ? &region
                                                                  : nullptr;
}

std::byte *Machine::translate(const void *address, size_t bytes) const {
  size_t offset = 0;
  for (auto *regions : {&device, &host})
    if (const Region *region = find(*regions, address, bytes, offset))
      return region->storage + offset;
  return nullptr;
}

bool Machine::isDeviceMemory(const void *address) const {
  size_t offset = 0;
  return find(device, address, 0, offset);
}

bool Machine::isShared(const void *address, size_t bytes) const {
  size_t offset = 0;
  const Region *region = find(device, address, bytes, offset);
  return region && region->isShared;
}

void Machine::setPolicy(Policy newPolicy, uint32_t newSeed) {
  policy = newPolicy;
  seed = newSeed;
  random.seed(seed);
}

void Machine::fail(const std::string &what) {
  if (failure.empty())
    failure = what;
  if (onFailure)
    onFailure(what);
}

} // namespace fcdp::fake
