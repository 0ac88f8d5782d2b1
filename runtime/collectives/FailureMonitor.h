// SPDX-License-Identifier: Apache-2.0
//
// Finds out which rank has died. Gloo cannot: its messages name sockets, and
// a survivor may hang until the time-out. So every rank keeps a counter going
// in the store, on a thread and a connection of its own.
#pragma once

#include "collectives/KeyValueStore.h"
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

/// Two threads: one looks at the store, one watches whether it still gets
/// answers. Where the store's host falls silent, a look may never end; then
/// its thread is left behind with its share of the store. Thread-safe.
class FailureMonitor {
public:
  FailureMonitor(std::shared_ptr<KeyValueStore> store,
                 FailureMonitorOptions options);
  ~FailureMonitor();

  /// Tells the others that this rank has failed by itself.
  void publishFailure(const std::string &message);
  /// Waits for a verdict on who failed. `onFailure` is not called from here on.
  std::optional<std::string> findCause(double seconds);
  /// Says that this rank is done. Where the store is held, returns when all
  /// ranks are. Throws std::runtime_error if one fails before.
  void finish();

  double heartbeat() const;
  double limit() const;

private:
  class State;

  std::shared_ptr<State> state;
  std::thread looker, watchdog;
};

} // namespace fcdp
