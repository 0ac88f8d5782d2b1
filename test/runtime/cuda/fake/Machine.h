// SPDX-License-Identifier: Apache-2.0
//
// A machine of devices in host memory, which the fake libraries drive and the
// tests look into. It has no threads: work runs when somebody asks whether it
// is done, and then as late, or in as odd an order, as streams and events
// allow. So a wait that is missing shows, each time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <vector>

struct CUstream_st;

namespace fcdp::fake {

/// What runs when a stream is asked for.
enum class Policy {
  Late,    ///< only what that stream needs
  Shuffled ///< before it, whatever else may run, in a random order
};

class Machine;

/// A command in a stream: what it does once it is at the head. Returns false
/// if it cannot run yet.
using Command = std::function<bool()>;

/// Ordered commands of one device. Of the machine's lock.
class Stream {
public:
  Stream(int device, int priority) : device(device), priority(priority) {}

  const int device;
  const int priority;
  /// Commands that have run, and that have been enqueued, since the start.
  uint64_t done = 0, issued = 0;

private:
  friend class Machine;
  std::deque<Command> queue;
  bool isRunning = false;
};

/// A point in a stream: reached when so many of its commands have run.
struct Point {
  std::shared_ptr<Stream> stream;
  uint64_t position = 0;
};

/// Thread-safe; functions marked "locked" are called with `mutex` held, which
/// commands are when they run.
class Machine {
public:
  static Machine &instance();

  std::recursive_mutex mutex;

  /// Locked: commands, and whether they have run.
  std::shared_ptr<Stream> makeStream(int device, int priority);
  void forget(const std::shared_ptr<Stream> &stream);
  Point enqueue(const std::shared_ptr<Stream> &stream, Command command);
  /// Runs what may run, up to that point; true if it is reached.
  bool advance(const std::shared_ptr<Stream> &stream, uint64_t position);
  bool advance(const Point &point) {
    return !point.stream || advance(point.stream, point.position);
  }
  /// What a question from outside does: `advance`, by the policy.
  bool isDone(const Point &point);
  bool isDone(const std::shared_ptr<Stream> &stream) {
    return isDone(Point{stream, stream->issued});
  }

  /// Locked: memory of devices. Its addresses cannot be read or written, as
  /// those of a GPU cannot: `translate` gives the address where its bytes are.
  void *allocate(size_t bytes);
  bool release(void *address);
  /// Locked: memory of the host that devices may use.
  void pin(void *address, size_t bytes);
  bool unpin(void *address);
  /// Null if not all of [address, address + bytes) is known memory.
  std::byte *translate(const void *address, size_t bytes) const;
  bool isDeviceMemory(const void *address) const;

  /// Locked.
  void setPolicy(Policy policy, uint32_t seed);
  void count(const char *entryPoint) { ++calls[entryPoint]; }
  /// The first thing that went wrong as it would on a device, e.g. an access
  /// to memory that is not there.
  void fail(const std::string &what);

  // Of the lock, as everything that has no function.
  std::map<std::string, uint64_t> calls;
  std::string failure;
  std::optional<uint64_t> mostPinnedBytes;
  uint64_t pinnedBytes = 0, deviceBytes = 0;
  uint64_t freeDeviceBytes = uint64_t(1) << 32;
  int devices = 8;
  int runtimeVersion = 13000;

private:
  struct Region {
    size_t bytes;
    std::byte *storage;
  };

  static const Region *find(const std::map<const std::byte *, Region> &regions,
                            const void *address, size_t bytes, size_t &offset);
  void runOthers();

  std::vector<std::shared_ptr<Stream>> streams;
  std::map<const std::byte *, Region> device, host;
  Policy policy = Policy::Late;
  std::mt19937 random;
};

/// What a CUDA stream is underneath; the default one's if null.
std::shared_ptr<Stream> streamOf(CUstream_st *stream);
/// The device that is current on the calling thread.
int deviceOfThread();

} // namespace fcdp::fake
