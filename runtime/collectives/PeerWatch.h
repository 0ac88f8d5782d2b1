// SPDX-License-Identifier: Apache-2.0
//
// Judging the other ranks by what they write to the store.
#pragma once

#include "core/Mesh.h"

#include <chrono>
#include <optional>
#include <vector>

namespace fcdp {

/// The first character of a rank's status.
namespace status {
inline constexpr char alive = 'a';  ///< then a counter
inline constexpr char done = 'd';   ///< needs the others no more
inline constexpr char failed = 'f'; ///< then its message
inline constexpr char ended = 'x';  ///< then the verdict on another rank
} // namespace status

/// Remembers when each rank's status last changed. Not thread-safe.
class PeerWatch {
public:
  PeerWatch(const Mesh &mesh, uint32_t rank, double heartbeatSeconds,
            double limitSeconds);

  /// Who has died or failed, if anyone, given all ranks' present statuses.
  std::optional<std::string> judge(const std::vector<std::string> &statuses);
  /// By the statuses judged last.
  bool everyoneIsDone() const;
  /// "rank 2 (...) stopped: no heartbeat for 3 s" for each rank that has been
  /// silent for longer; "" if there is none.
  std::string describeSilent(double longerThanSeconds) const;

private:
  using Clock = std::chrono::steady_clock;
  struct Peer {
    std::string status;
    Clock::time_point lastChange;

    char state() const { return status.empty() ? status::alive : status[0]; }
  };

  void forgiveOwnPause(Clock::time_point now);

  const Mesh mesh;
  const uint32_t rank;
  const double heartbeatSeconds, limitSeconds;
  std::vector<Peer> peers;
  Clock::time_point lastLook;
};

} // namespace fcdp
