// SPDX-License-Identifier: Apache-2.0
//
// A rank's membership of a job: rendezvous, transports, failure detection.
// Implemented with libtorch's TCPStore and Gloo, which this header hides.
#pragma once

#include "collectives/Transport.h"
#include "core/Backend.h"
#include "core/Mesh.h"

#include <functional>
#include <memory>

namespace fcdp {

/// Which groups over an axis are made; each takes a thread and a connection to
/// every other rank in it.
struct AxisGroups {
  bool gather = true, reduce = true;
};

struct JobOptions {
  /// What the plan was compiled for; must be what the launcher started.
  Mesh mesh;
  /// Where the launcher put this rank.
  Place place;
  /// Must be equal on all ranks.
  AxisGroups nodeGroups, localGroups, worldGroups{false, false};
  /// The launcher's own numbers: RANK and WORLD_SIZE. They need not follow the
  /// mesh; they only tell the ranks apart until the mesh is known.
  uint32_t launcherRank = 0;
  uint32_t launcherSize = 1;

  /// The store's address (MASTER_ADDR, MASTER_PORT). Exactly one process of
  /// the job serves it: a rank with `servesStore`, or the launcher's agent.
  /// A server that is given port 0 picks a free one and reports it by
  /// `onStorePort` before it waits for the others.
  std::string host = "127.0.0.1";
  uint16_t port = 0;
  bool servesStore = true;
  std::function<void(uint16_t port)> onStorePort;
  /// Keeps the keys of a restarted job apart (TORCHELASTIC_RESTART_COUNT).
  uint32_t restartCount = 0;
  /// The same for several jobs, one after the other, over one store.
  uint32_t sessionNumber = 0;
  /// The network interface for Gloo; empty: the one by which `host` is reached.
  std::string interface;

  /// Must be equal on all ranks.
  std::string planHash;
  uint32_t abi = 0;

  /// All ranks must have joined within this time.
  double joinSeconds = 60;
  /// A collective whose peer does not come ends after this time. A peer that
  /// still computes is merely late, so this is long; the death of a peer is
  /// found by the heartbeats instead.
  double collectiveSeconds = 300;
  double heartbeatSeconds = 1;
  /// A rank whose heartbeat has not changed for this time is dead.
  double heartbeatLimitSeconds = 6;

  /// Called at most once, on the monitor's thread, when another rank has died
  /// or failed, with the message to print. Where the
  /// calling thread of the step may be blocked in a collective, it must end the
  /// process, or have `abortTransfers` called.
  std::function<void(const std::string &message)> onFailure;
};

/// Functions throw std::runtime_error. `gather`, `barrier` and `finish` are
/// called by one thread; the others by any.
class Job {
public:
  virtual ~Job() = default;

  virtual const Mesh &mesh() const = 0;
  virtual const Place &place() const = 0;
  uint32_t rank() const { return worldRank(mesh(), place()); }
  /// The port that the store is reached by.
  virtual uint16_t storePort() const = 0;
  /// For HostSegmentOptions::name: differs between jobs and between nodes.
  virtual std::string segmentName() const = 0;

  /// The groups of an axis, null where JobOptions has none; `control` joins all
  /// ranks, for small things.
  virtual AxisTransports transports(Axis axis) = 0;
  virtual Transport &control() = 0;

  /// All ranks' values in rank order, over the control group.
  virtual std::vector<double> gather(std::span<const double> values,
                                     const char *what) = 0;
  virtual void barrier(const char *what) = 0;

  /// Small values shared by all ranks of this run of the job.
  virtual void set(const std::string &key, const std::string &value) = 0;
  /// Waits until somebody has set it, at most `seconds`.
  virtual std::string get(const std::string &key, double seconds) = 0;

  /// Ends running transfers of all groups with an error, and fails later ones.
  /// Callable from any thread.
  virtual void abortTransfers() noexcept = 0;

  /// For a failure of this rank's own (not of a transfer): tells the others,
  /// who then end with "rank 1 (...) failed: <message>".
  virtual void publishFailure(const std::string &message) = 0;
  /// For a failed transfer: `message` with the rank that caused it, found by
  /// the monitor within 10 s, in front. If none is found, publishes `message`
  /// as this rank's own failure. `onFailure` is not called once this runs.
  virtual std::string explainFailure(const std::string &message) = 0;
  /// Says that this rank is done and needs the others no more. The rank that
  /// serves the store returns when all are done. Without it, the destructor
  /// leaves the other ranks to find this one dead.
  virtual void finish() = 0;
};

/// Meets the other ranks, checks that they fill the mesh and have the same
/// plan, and makes the groups. Throws std::runtime_error with a message that
/// names the ranks that are missing or differ.
std::unique_ptr<Job> joinJob(const JobOptions &options);

} // namespace fcdp
