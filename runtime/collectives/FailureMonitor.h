// SPDX-License-Identifier: Apache-2.0
//
// Finds out which rank has died. Gloo cannot: its messages name sockets, and a
// survivor may hang until the time-out. So every rank increments a counter in
// the store, on a thread and a connection of its own.
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

/// Monitors the ranks with two threads. One reads the store, and one checks
/// that the store still answers. If the store's host stops answering, a read
/// may never return; then its thread is left behind with its share of the
/// store. Thread-safe.
class FailureMonitor {
public:
  FailureMonitor(std::shared_ptr<KeyValueStore> store,
                 FailureMonitorOptions options);
  ~FailureMonitor();

  /// Tells the other ranks that this rank has failed.
  void publishFailure(const std::string &message);
  /// Waits for a verdict on the rank that failed. `onFailure` is not called
  /// after this call.
  std::optional<std::string> findCause(double seconds);
  /// Announces that this rank is done. On the rank that serves the store it
  /// returns when all ranks are done, and throws Failure if one fails before
  /// that.
  void finish();

  double heartbeat() const;
  double limit() const;

private:
  class State;

  std::shared_ptr<State> state;
  std::thread looker, watchdog;
};

} // namespace fcdp
