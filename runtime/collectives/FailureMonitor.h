// SPDX-License-Identifier: Apache-2.0
//
// Finds out which rank has died. Gloo cannot: its messages name sockets, and
// a survivor may hang until the time-out. So every rank keeps a counter going
// in the store, on a thread and a connection of its own.
#pragma once

#include "collectives/KeyValueStore.h"
#include "core/Mesh.h"

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

namespace fcdp {

struct FailureMonitorOptions {
  Mesh mesh;
  uint32_t rank = 0;
  double heartbeatSeconds = 1;
  double limitSeconds = 6;
  /// This rank's process serves the store: it ends a little later than the
  /// others, for them to read why.
  bool holdsStore = false;
  /// "rank 0 (node 0, local 0), which holds the store at host:port,".
  std::string storeOwner;
  /// See JobOptions::onFailure.
  std::function<void(const std::string &)> onFailure;
};

/// The status that a rank must have set before any monitor starts.
void publishAlive(KeyValueStore &store, uint32_t rank);

/// Thread-safe.
class FailureMonitor {
public:
  /// Starts the thread. `store` must outlive the monitor and answer within a
  /// few seconds or throw.
  FailureMonitor(KeyValueStore &store, FailureMonitorOptions options);
  ~FailureMonitor();

  /// Tells the others that this rank has failed by itself.
  void publishFailure(const std::string &message);
  /// Waits for a verdict on who failed. `onFailure` is not called from here on.
  std::optional<std::string> findCause(double seconds);
  /// Says that this rank is done. Where the store is held, returns when all
  /// ranks are. Throws std::runtime_error if one fails before.
  void finish();

  double heartbeat() const { return options.heartbeatSeconds; }
  double limit() const { return options.limitSeconds; }

private:
  using Clock = std::chrono::steady_clock;
  struct Peer {
    std::string status;
    Clock::time_point lastChange;
  };

  void run();
  void beat();
  bool setFinalStatus(const std::string &status);
  std::optional<std::string> judge(const std::vector<std::string> &statuses);
  std::string describeSilent(Clock::duration longerThan) const;
  void forgiveOwnPause(Clock::time_point now);
  void conclude(const std::string &verdict, bool storeLost);
  void sleep(double seconds);

  KeyValueStore &store;
  const FailureMonitorOptions options;
  std::vector<std::string> keys;

  // Of the monitor's thread alone.
  std::vector<Peer> peers;
  Clock::time_point lastLook;
  uint64_t beats = 0;

  std::mutex statusMutex; ///< orders what this rank writes to its key
  bool statusIsFinal = false;

  std::mutex mutex;
  std::condition_variable changed;
  std::optional<std::string> verdict;
  bool stopping = false, finishing = false, allDone = false, claimed = false;
  std::thread thread;
};

} // namespace fcdp
