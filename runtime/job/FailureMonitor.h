// SPDX-License-Identifier: Apache-2.0
//
// Finds out which rank has died. Gloo cannot: its messages name sockets, and a
// survivor may hang until the timeout. So every rank increments a counter in
// the store.
#pragma once

#include "core/Failure.h"
#include "core/Mesh.h"
#include "store/KeyValueStore.h"

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
  /// Whether this rank's process serves the store. Such a rank ends a little
  /// later than the others, so that they can read the cause.
  bool holdsStore = false;
  /// The owner's name in messages, e.g. "rank 0 (node 0, local 0), which holds
  /// the store at host:port,".
  std::string storeOwner;
  /// See JobOptions::onFailure.
  std::function<void(const std::string &)> onFailure;
};

/// Sets the status that each rank must have before any monitor starts.
void publishAlive(KeyValueStore &store, uint32_t rank);

/// Monitors the ranks with two threads. One sends heartbeats at fixed times and
/// never waits for the store. The other reads the heartbeats of all ranks,
/// however long the store takes to answer. Thread-safe.
class FailureMonitor {
public:
  /// Takes two connections to one store, which nothing else may use.
  FailureMonitor(std::shared_ptr<KeyValueStore> beats,
                 std::shared_ptr<KeyValueStore> looks,
                 FailureMonitorOptions options);
  ~FailureMonitor();

  /// Counts a call that all ranks make, as Job::beginCall does.
  void beginCall(int64_t steps) noexcept;
  /// Announces to the other ranks that this rank makes no more calls.
  void announceEnd(int64_t steps);

  /// Reports to the other ranks that this rank has failed. The rank that serves
  /// the store returns after they have read it, but within several heartbeats,
  /// or within one if it `isLate`.
  void publishFailure(const std::string &message, bool isLate = false);
  /// Looks at the statuses at once, and waits for a verdict on the rank that
  /// failed. If there is one, it returns as late as `publishFailure` does.
  /// `onFailure` is not called after this call.
  std::optional<std::string> findCause(double seconds, bool isLate = false);
  /// Describes the ranks that have missed two heartbeats, if there are any.
  std::optional<std::string> describeSilent();
  /// Announces that this rank is done, and returns after the store has this
  /// status. On the rank that serves the store, it returns after all ranks are
  /// done and know that the store has their status, and throws Failure if a
  /// rank fails before that.
  void finish();

  double heartbeat() const;
  double limit() const;

private:
  class State;

  std::unique_ptr<State> state;
  std::thread beater, looker;
};

} // namespace fcdp
