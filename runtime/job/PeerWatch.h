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
inline constexpr char alive = 'a'; ///< followed by a counter
/// The rank makes no more calls; a `ClosedSession` and a counter follow.
inline constexpr char closing = 'c';
inline constexpr char done = 'd';   ///< no longer needs the others
inline constexpr char left = 'l';   ///< done, and no longer needs the store
inline constexpr char failed = 'f'; ///< followed by its message
inline constexpr char ended = 'x';  ///< followed by the verdict on another rank
inline constexpr char gone = 'g';   ///< its connection ended: the rank's will
} // namespace status

/// The last status of a rank before it waits for the others to end.
struct ClosedSession {
  uint64_t calls = 0; ///< that all ranks make together
  int64_t steps = 0;
};
std::string encode(const ClosedSession &closed);
/// Ignores text after the session. Returns zeros if `encode` did not make the
/// text.
ClosedSession decodeClosed(const std::string &text);

/// Returns, for example, "1 step" or "2 steps".
std::string countSteps(int64_t steps);

/// Measures for how long the status of each rank has not changed. One look adds
/// at most a third of the limit: if more time has passed, the store was slow or
/// this process was stopped, which does not show that the other ranks were
/// silent. Not thread-safe.
class PeerWatch {
public:
  PeerWatch(const Mesh &mesh, uint32_t rank, double limitSeconds);

  /// Takes the current statuses of all ranks, and the calls that this rank has
  /// begun. Returns a description of the ranks that have died, failed, or ended
  /// while this rank goes on. Returns none if there are none.
  std::optional<std::string> judge(const std::vector<std::string> &statuses,
                                   const ClosedSession &own = {});
  /// Returns whether all ranks are done, by the last statuses.
  bool everyoneIsDone() const;
  /// Returns whether each other rank is silent or no longer reads the store.
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
    bool beats() const {
      return state() == status::alive || state() == status::closing;
    }
  };

  bool isSilent(const Peer &peer) const;
  /// Describes the ranks that have closed their sessions after fewer calls than
  /// this rank has begun, or returns "".
  std::string describeClosed(const ClosedSession &own) const;
  /// Describes the ranks whose processes have ended, or returns "".
  std::string describeGone() const;

  const Mesh mesh;
  const uint32_t rank;
  const double limitSeconds;
  std::vector<Peer> peers;
  Clock::time_point lastLook;
};

} // namespace fcdp
