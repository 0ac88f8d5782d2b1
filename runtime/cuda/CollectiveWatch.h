// SPDX-License-Identifier: Apache-2.0
//
// Finds out which collective does not end. A device tells nobody: so each
// stream writes the number of a collective into memory of the host as it
// begins and as it ends it, and a thread looks at those numbers.
#pragma once

#include "core/Backend.h"
#include "core/FirstFailure.h"
#include "cuda/CudaLibrary.h"
#include "cuda/DeviceGroup.h"

#include <array>
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
  /// A collective that has begun ends after this time, or fails.
  double timeoutSeconds = 300;
};

/// `begin` and `end` are called by the issuer; the destructor by whoever is
/// the last to use the streams, when they run no more.
class CollectiveWatch {
public:
  /// Stores what it finds in `failure`, which must outlive it. Throws
  /// std::runtime_error.
  CollectiveWatch(const CollectiveWatchOptions &options, FirstFailure &failure);
  ~CollectiveWatch();
  CollectiveWatch(const CollectiveWatch &) = delete;
  CollectiveWatch &operator=(const CollectiveWatch &) = delete;

  /// To be called for each group before the first `begin` on it; it must live
  /// until `stop`.
  void add(DeviceGroup &group);
  /// Around the enqueuing of one collective; throw std::runtime_error.
  void begin(StreamId stream, cudaStream_t on, const char *what,
             DeviceGroup &group);
  void end(StreamId stream, cudaStream_t on);
  /// Ends the thread. Idempotent.
  void stop();

private:
  using Clock = std::chrono::steady_clock;

  /// Numbers of collectives on one stream, from 1 on and modulo 2^32.
  struct Marks {
    uint32_t begun, ended;
  };
  struct InFlight {
    const char *what;
    DeviceGroup *group;
    uint32_t number;
    /// When the thread first saw that it has begun; 0 before.
    Clock::time_point seenBegun;
  };
  struct Stream {
    uint32_t issued = 0;
    std::vector<InFlight> inFlight; ///< in the order of issue
  };

  Marks read(StreamId stream) const;
  void write(cudaStream_t on, const uint32_t &mark, uint32_t number) const;
  void run();
  std::optional<std::string> look(Clock::time_point now);
  std::optional<std::string> lookAtStream(StreamId stream,
                                          Clock::time_point now);
  std::string describe(const InFlight &collective,
                       const std::string &text) const;
  std::string describe(DeviceGroup &group, const std::string &text) const;

  const CollectiveWatchOptions options;
  FirstFailure &failure;
  Marks *marks = nullptr; ///< kNumStreams of them, in pinned memory
  std::mutex mutex;
  std::condition_variable changed;
  bool stopping = false;
  std::vector<DeviceGroup *> groups;
  std::array<Stream, kNumStreams> streams;
  std::thread thread;
};

} // namespace fcdp
