// SPDX-License-Identifier: Apache-2.0
//
// Judges the other ranks by the statuses that they write to the store.
#pragma once

#include "core/Mesh.h"

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace fcdp {

/// The first character of a rank's status.
namespace status {
inline constexpr char alive = 'a';  ///< followed by a counter
inline constexpr char done = 'd';   ///< no longer needs the others
inline constexpr char left = 'l';   ///< done, and no longer needs the store
inline constexpr char failed = 'f'; ///< followed by its message
inline constexpr char ended = 'x';  ///< followed by the verdict on another rank
inline constexpr char gone = 'g';   ///< its connection ended: the rank's will
} // namespace status

/// Measures for how long the status of each rank has not changed. A look counts
/// for a third of the limit at most: the store was slow, or this process was
/// stopped, and cannot tell whether the others were silent. Not thread-safe.
class PeerWatch {
public:
  PeerWatch(const Mesh &mesh, uint32_t rank, double limitSeconds);

  /// Takes the current statuses of all ranks. Returns a description of the
  /// ranks that have died or failed, or none.
  std::optional<std::string> judge(const std::vector<std::string> &statuses);
  /// Returns whether all ranks are done, by the last statuses.
  bool everyoneIsDone() const;
  /// Returns whether no other rank that is not silent reads the store any more.
  bool othersHaveLeft() const;
  /// Returns "rank 2 (...) stopped: no heartbeat for 3 s" for each rank that
  /// has been silent for longer, or "" if there is none.
  std::string describeSilent(double longerThanSeconds) const;

private:
  using Clock = std::chrono::steady_clock;
  struct Peer {
    std::string status;
    double silentSeconds = 0;

    char state() const { return status.empty() ? status::alive : status[0]; }
  };

  bool isSilent(const Peer &peer) const;
  /// Describes the ranks whose processes have ended, or returns "".
  std::string describeGone() const;

  const Mesh mesh;
  const uint32_t rank;
  const double limitSeconds;
  std::vector<Peer> peers;
  Clock::time_point lastLook;
};

} // namespace fcdp
