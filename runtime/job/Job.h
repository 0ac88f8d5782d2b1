// SPDX-License-Identifier: Apache-2.0
//
// A rank's membership of a job: rendezvous, transports and failure detection.
// It uses libtorch's Gloo, but this header does not expose them.
#pragma once

#include "core/Backend.h"
#include "core/Failure.h"
#include "core/Mesh.h"
#include "transports/Transport.h"

#include <functional>
#include <memory>
#include <optional>

namespace fcdp {

/// The groups that are made over an axis. Each needs a thread and a connection
/// to every other rank in it.
struct AxisGroups {
  bool gather = true, reduce = true;
};

struct JobOptions {
  /// The mesh that the plan was compiled for. It must match the ranks that the
  /// launcher started.
  Mesh mesh;
  /// The position at which the launcher started this rank.
  Place place;
  /// The groups to create; equal on all ranks.
  AxisGroups nodeGroups, localGroups, worldGroups{false, false};
  /// The launcher's own numbers, RANK and WORLD_SIZE. They need not follow the
  /// mesh; they only distinguish the ranks until the mesh is known.
  uint32_t launcherRank = 0;
  uint32_t launcherSize = 1;

  /// The launcher's address (MASTER_ADDR, MASTER_PORT). It is the address of
  /// the job's store if fcdp-run serves it (`isOwnStore`). Otherwise it is the
  /// address of a TCPStore of PyTorch, by which the ranks find the job's store.
  /// Exactly one process serves the TCPStore: a rank with `servesStore`, the
  /// launcher's agent, or the program. With port 0 the rank picks a free port
  /// and reports it by `onStorePort` before it waits for the other ranks.
  std::string host = "127.0.0.1";
  uint16_t port = 0;
  bool isOwnStore = false;
  bool servesStore = true;
  std::function<void(uint16_t port)> onStorePort;
  /// The secret that ranks prove to know before their messages are accepted;
  /// equal on all ranks.
  std::string secret;
  /// Called on a thread of the job with a sentence about a process that does
  /// not belong to the job and was refused.
  std::function<void(const std::string &message)> onStranger;
  /// Separates the keys of a restarted job (TORCHELASTIC_RESTART_COUNT).
  uint32_t restartCount = 0;
  /// Separates the keys of several consecutive jobs that use one store.
  uint32_t sessionNumber = 0;
  /// The network interface for Gloo. If it is empty, Gloo uses the interface
  /// that reaches `host`.
  std::string interface;

  /// The hash of the plan, and the ABI version; equal on all ranks.
  std::string planHash;
  uint32_t abi = 0;

  /// Seconds within which all ranks must have joined.
  double joinSeconds = 60;
  /// Seconds after which a collective fails if a peer does not take part. A
  /// peer may only be slow to compute, so the limit is long. Heartbeats find
  /// dead peers much earlier.
  double collectiveSeconds = 300;
  double heartbeatSeconds = 1;
  /// Seconds without a heartbeat after which a rank counts as dead. It bounds
  /// the outages that a job survives. A rank whose process ends is found at
  /// once.
  double heartbeatLimitSeconds = 6;

  /// Called at most once, on the monitor's thread, when another rank has died
  /// or failed, with the message to print. The thread that runs the step may be
  /// blocked in a collective, so this function must end the process or lead to
  /// a call of `abortTransfers`.
  std::function<void(const std::string &message)> onFailure;
};

/// A job. Functions throw std::runtime_error. One thread calls `gather`,
/// `barrier`, `exchange` and `finish`; any thread may call the others.
class Job {
public:
  virtual ~Job() = default;

  virtual const Mesh &mesh() const = 0;
  virtual const Place &place() const = 0;
  uint32_t rank() const { return worldRank(mesh(), place()); }
  /// Returns a name for HostSegmentOptions::name that differs between jobs and
  /// between nodes.
  virtual std::string segmentName() const = 0;

  /// Returns the groups of an axis; a group that JobOptions does not request is
  /// null. `control` joins all ranks, for small messages.
  virtual AxisTransports transports(AxisId axis) = 0;
  virtual Transport &control() = 0;

  /// Returns the values of all ranks in rank order, over the control group.
  virtual std::vector<double> gather(std::span<const double> values,
                                     const char *what) = 0;
  virtual void barrier(const char *what) = 0;

  /// Shares a small value with all ranks of this run of the job.
  virtual void set(const std::string &key, const std::string &value) = 0;
  /// Waits until the key is set, for at most `seconds`.
  virtual std::string get(const std::string &key, double seconds) = 0;
  /// Returns the value, or none if the key is not set. Throws StoreError.
  virtual std::optional<std::string> find(const std::string &key) = 0;

  /// Returns the values of all ranks in rank order, exchanged over the store.
  /// Collective. It waits for as long as all ranks live, so a rank may come
  /// late. Errors call the exchange `what`.
  virtual std::vector<std::string> exchange(const std::string &value,
                                            const char *what) = 0;

  /// Ends running transfers of all groups with an error. Later ones fail. It
  /// may be called from any thread.
  virtual void abortTransfers() noexcept = 0;

  /// Counts a call that all ranks make, before its first transfer. `steps` is
  /// the number of steps that this rank has made. Any thread may call it; it
  /// takes no lock.
  virtual void beginCall(int64_t steps) noexcept = 0;
  /// Announces to the other ranks that this rank makes no more calls, after
  /// `steps` steps. Ranks that have begun more calls, or begin one, end with an
  /// error that names this rank.
  virtual void announceEnd(int64_t steps) = 0;

  /// Reports a failure of this rank (other than a failed transfer) to the other
  /// ranks, which then end with "rank 1 (...) failed: <message>".
  virtual void publishFailure(const std::string &message) = 0;
  /// Returns `message` of a failed transfer, prefixed with the rank that caused
  /// it if the monitor finds one within its limit. Otherwise it publishes
  /// `message` as this rank's own failure. After a timeout the monitor has
  /// already had its time, so the answer comes within a second. `onFailure` is
  /// not called after this call.
  virtual std::string explainFailure(const std::string &message,
                                     FailureKind kind = FailureKind::Other) = 0;
  /// Announces that this rank is done and no longer needs the others. On the
  /// rank that serves the store it returns when all ranks are done. If it is
  /// not called before the destructor, the other ranks see this rank as dead.
  virtual void finish() = 0;
};

/// Meets the other ranks, checks that they fill the mesh and have the same
/// plan, and makes the groups. Throws std::runtime_error that names the ranks
/// that are missing or differ.
std::unique_ptr<Job> joinJob(const JobOptions &options);

} // namespace fcdp
