// SPDX-License-Identifier: Apache-2.0
//
// A machine of devices in host memory, which the fake libraries use and tests
// inspect. It has no threads. Work runs when somebody asks whether it is done,
// and then as late, or in as random an order, as streams and events allow. So a
// missing wait shows every time.
#pragma once

#include "Speed.h"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

struct CUstream_st;

namespace fcdp::fake {

/// The work that runs when a stream is queried.
enum class Policy {
  Late,     ///< only work that the stream needs
  Shuffled, ///< first any other work that may run, in random order
  Ahead     ///< first all work of one stream, by the seed, that may run
};

class Machine;

/// A command in a stream, to run once it is at the head. Returns false if it
/// cannot run yet.
using Command = std::function<bool()>;

/// Ordered commands of one device. Guarded by the machine's lock.
class Stream {
public:
  Stream(int device, int priority) : device(device), priority(priority) {}

  const int device;
  const int priority;
  /// Commands that have run, and commands that have been enqueued.
  uint64_t done = 0, issued = 0;
  /// The device's time at which the last command that has run ended, if the
  /// machine has a speed.
  double time = 0;

private:
  friend class Machine;
  struct Queued {
    Command run;
    double issued, seconds;
  };
  std::deque<Queued> queue;
  bool isRunning = false;
};

/// A point in a stream, which is reached when that many of its commands have
/// run.
struct Point {
  std::shared_ptr<Stream> stream;
  uint64_t position = 0;
};

/// The fake machine. Thread-safe. Functions marked "Locked" must be called with
/// `mutex` held; it is also held when commands run.
class Machine {
public:
  static Machine &instance();

  std::recursive_mutex mutex;

  /// Locked. Makes a stream, and forgets one.
  std::shared_ptr<Stream> makeStream(int device, int priority);
  void forget(const std::shared_ptr<Stream> &stream);
  /// The command takes `seconds` of the device's time.
  Point enqueue(const std::shared_ptr<Stream> &stream, Command command,
                double seconds = 0);
  /// Runs work that may run, up to that point. Returns whether it is reached.
  bool advance(const std::shared_ptr<Stream> &stream, uint64_t position);
  bool advance(const Point &point) {
    return !point.stream || advance(point.stream, point.position);
  }
  /// Answers a query from outside: `advance`, according to the policy.
  bool isDone(const Point &point);
  bool isDone(const std::shared_ptr<Stream> &stream) {
    return isDone(Point{stream, stream->issued});
  }

  /// Locked. Allocates and frees device memory. As on a GPU, the host cannot
  /// access its addresses; `translate` returns the address of its bytes.
  /// `isShared` memory can be mapped by other ranks.
  void *allocate(size_t bytes, bool isShared = false);
  bool release(void *address);
  /// Locked. Registers host memory that devices may use.
  void pin(void *address, size_t bytes);
  bool unpin(void *address);
  /// Returns null unless all of [address, address + bytes) is known memory.
  std::byte *translate(const void *address, size_t bytes) const;
  bool isDeviceMemory(const void *address) const;
  /// Returns whether all of it is memory that other ranks can map.
  bool isShared(const void *address, size_t bytes) const;

  /// Locked. Runs all work that can run, and returns whether none is left.
  bool isIdle();

  /// Locked. Returns the latest end of work that the host has seen. Work that
  /// it enqueues then begins no earlier.
  double timeSeen() const { return seen; }
  /// Locked. Returns the seed with which `Policy::Ahead` has that stream ahead.
  uint32_t numberOf(const std::shared_ptr<Stream> &stream) const;
  /// Locked. Sets the policy, and counts a call.
  void setPolicy(Policy policy, uint32_t seed);
  void count(const char *entryPoint) {
    if (!doesNothing)
      ++calls[entryPoint];
    if (onCall)
      onCall(entryPoint);
  }
  /// Records the first error that would occur on a device, e.g. an access to
  /// memory that does not exist, and calls `onFailure`.
  void fail(const std::string &what);

  // Guarded by the lock, like all members below.
  std::map<std::string, uint64_t> calls;
  std::string failure;
  std::function<void(const std::string &)> onFailure;
  std::function<void(const char *)> onCall;
  std::optional<uint64_t> mostPinnedBytes;
  uint64_t pinnedBytes = 0, deviceBytes = 0;
  uint64_t freeDeviceBytes = uint64_t(1) << 32;
  /// Whether cudaFree waits for all work of the device, as CUDA's does. Some
  /// programs count on it; fcdp does not.
  bool freesWait = false;
  /// Work is done as soon as it is enqueued, and has no effect. So a program
  /// takes the time of its host alone.
  bool doesNothing = false;
  int devices = 8;
  int runtimeVersion = 13000;
  /// Names of kernels that programs have for real devices, by the function with
  /// which they launch them.
  std::map<const void *, std::string> hostKernels;
  /// Number of each device. A collective occupies one for each of its thread
  /// blocks, from when it may start until all its ranks have started.
  int multiprocessors = 132;
  /// Pairs of devices of which the first cannot access the second's memory.
  std::set<std::pair<int, int>> withoutPeers;
  bool sharesByHandles = true;
  std::map<int, int> busyMultiprocessors; ///< by device
  /// How long work takes. Without it, events show the time of this machine.
  std::optional<Speed> speed;
  /// Hardware queues that the environment asked the driver to make when it was
  /// initialized.
  int queues = 0;

private:
  struct Region {
    size_t bytes;
    std::byte *storage;
    bool isShared = false;
  };

  static const Region *find(const std::map<const std::byte *, Region> &regions,
                            const void *address, size_t bytes, size_t &offset);
  void runOthers();
  void runAhead();

  double seen = 0;
  std::vector<std::shared_ptr<Stream>> streams;
  std::map<const std::byte *, Region> device, host;
  Policy policy = Policy::Late;
  uint32_t seed = 0;
  std::mt19937 random;
};

/// Returns the machine's stream for a CUDA stream; the default one's for null.
std::shared_ptr<Stream> streamOf(CUstream_st *stream);
/// Locked. Enqueues the command, or adds it to the graph that is captured on
/// the stream.
void put(CUstream_st *stream, Command command, double seconds = 0);
bool isCaptured(CUstream_st *stream);
/// Returns the current device of the calling thread.
int deviceOfThread();
/// Returns whether the address is in host memory that devices may use.
bool isPinned(const void *address);

} // namespace fcdp::fake
