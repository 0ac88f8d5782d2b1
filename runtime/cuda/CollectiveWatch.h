// SPDX-License-Identifier: Apache-2.0
//
// Finds collectives that hang. The device does not report them. So each stream
// writes the number of a collective into host memory when the collective begins
// and when it ends, and a thread polls these numbers.
#pragma once

#include "core/Backend.h"
#include "core/FirstFailure.h"
#include "cuda/CudaLibrary.h"
#include "cuda/DeviceGroup.h"

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

namespace fcdp {

struct CollectiveWatchOptions {
  std::shared_ptr<const CudaLibrary> cuda;
  int device = 0;
  uint32_t worldRank = 0;
  /// Time in seconds after which a collective that has begun and not ended
  /// fails.
  double timeoutSeconds = 300;
  /// Time in seconds after a failure within which the issuer must have seen it.
  double noticeSeconds = 5;
  /// Optional; called on the watch's thread.
  OnBlocked onBlocked = {};
  /// Optional; called while the groups are aborted, which may wait for the
  /// device.
  std::function<void()> whileAborting = {};
};

/// Watches for collectives that do not end. If the issuer does not see a
/// failure, it is blocked in a call that waits for the device, or for a
/// resource that a collective in flight occupies. The groups are then aborted,
/// so that the call returns.
///
/// The issuer calls `begin`, `end` and `notice`. The destructor may run only
/// when the streams are idle or dead.
class CollectiveWatch {
public:
  /// Stores failures in `failure`, which must outlive it. Throws
  /// std::runtime_error.
  CollectiveWatch(const CollectiveWatchOptions &options, FirstFailure &failure);
  ~CollectiveWatch();
  CollectiveWatch(const CollectiveWatch &) = delete;
  CollectiveWatch &operator=(const CollectiveWatch &) = delete;

  /// Registers a group. It must be called before the first `begin` on the
  /// group, which must live until `stop`.
  void add(DeviceGroup &group);
  /// Mark the enqueuing of one collective. Throw std::runtime_error.
  void begin(StreamId stream, cudaStream_t on, const char *what,
             DeviceGroup &group);
  void end(StreamId stream, cudaStream_t on);
  /// Records that the issuer has seen a failure.
  void notice() { isNoticed.store(true, std::memory_order_relaxed); }
  /// Ends the thread. May be called again.
  void stop();

private:
  using Clock = std::chrono::steady_clock;

  /// Numbers of the collectives on one stream, from 1 on and modulo 2^32.
  struct Marks {
    uint32_t begun, ended;
  };
  struct InFlight {
    const char *what;
    DeviceGroup *group;
    uint32_t number;
    /// The time at which the thread first saw that the collective has begun; 0
    /// before that.
    Clock::time_point seenBegun;
  };
  struct Stream {
    uint32_t issued = 0;
    std::vector<InFlight> inFlight; ///< in the order of issue
  };

  Marks read(StreamId stream) const;
  void write(cudaStream_t on, const uint32_t &mark, uint32_t number) const;
  void run();
  /// Waits until the issuer has seen the failure, and aborts the groups if it
  /// does not.
  void freeIssuer(std::unique_lock<std::mutex> &lock);
  std::optional<Failure> look(Clock::time_point now);
  std::optional<Failure> lookAtStream(StreamId stream, Clock::time_point now);
  std::string describe(const InFlight &collective,
                       const std::string &text) const;
  std::string describe(DeviceGroup &group, const std::string &text) const;

  const CollectiveWatchOptions options;
  FirstFailure &failure;
  Marks *marks = nullptr; ///< kNumStreams of them, in pinned memory
  std::mutex mutex;
  std::condition_variable changed;
  bool stopping = false;
  std::atomic<bool> isNoticed{false};
  std::vector<DeviceGroup *> groups;
  std::array<Stream, kNumStreams> streams;
  std::thread thread;
};

} // namespace fcdp
