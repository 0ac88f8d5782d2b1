// SPDX-License-Identifier: Apache-2.0
//
// Finds out which rank has died. Gloo cannot: its messages name sockets, and a
// survivor may hang until the time-out. So every rank increments a counter in
// the store.
#pragma once

#include "collectives/KeyValueStore.h"
#include "core/Failure.h"
#include "core/Mesh.h"

#include <functional>
#include <memory>
#include <optional>
#include <thread>

namespace fcdp {

struct FailureMonitorOptions {
  Mesh mesh;
  uint32_t rank = 0;
  double heartbeatSeconds = 1;
  double limitSeconds = 6;
  /// Whether this rank's process serves the store. It ends a little later than
  /// the others, so that they can read why.
  bool holdsStore = false;
  /// The owner as messages name it, e.g. "rank 0 (node 0, local 0), which holds
  /// the store at host:port,".
  std::string storeOwner;
  /// See JobOptions::onFailure.
  std::function<void(const std::string &)> onFailure;
};

/// Sets the status that a rank must have before any monitor starts.
void publishAlive(KeyValueStore &store, uint32_t rank);

/// Monitors the ranks with two threads. One sends heartbeats at fixed times and
/// never waits for the store. The other one reads those of all ranks, however
/// long the store takes to answer. Thread-safe.
class FailureMonitor {
public:
  /// The stores are two connections to one store, which nothing else uses.
  FailureMonitor(std::shared_ptr<KeyValueStore> beats,
                 std::shared_ptr<KeyValueStore> looks,
                 FailureMonitorOptions options);
  ~FailureMonitor();

  /// Counts a call that all ranks make, as Job::beginCall does.
  void beginCall(int64_t steps) noexcept;
  /// Tells the other ranks that this one makes no more calls.
  void announceEnd(int64_t steps);

  /// Tells the other ranks that this rank has failed. The rank that serves the
  /// store stays until they have read it, for several heartbeats at most, or
  /// for less than one if it `isLate`.
  void publishFailure(const std::string &message, bool isLate = false);
  /// Looks at once, and waits for a verdict on the rank that failed. Stays as
  /// `publishFailure` does if there is one. `onFailure` is not called after
  /// this call.
  std::optional<std::string> findCause(double seconds, bool isLate = false);
  /// Describes the ranks of which two heartbeats are missing, if there are any.
  std::optional<std::string> describeSilent();
  /// Announces that this rank is done, and returns when the store has it. On
  /// the rank that serves the store it returns when all ranks are done and know
  /// that the store has it, and throws Failure if one fails before that.
  void finish();

  double heartbeat() const;
  double limit() const;

private:
  class State;

  std::unique_ptr<State> state;
  std::thread beater, looker;
};

} // namespace fcdp
