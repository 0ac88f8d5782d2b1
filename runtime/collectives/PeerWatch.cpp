// SPDX-License-Identifier: Apache-2.0

#include "collectives/PeerWatch.h"

namespace fcdp {

static double secondsOf(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

PeerWatch::PeerWatch(const Mesh &mesh, uint32_t rank, double heartbeatSeconds,
                     double limitSeconds)
    : mesh(mesh), rank(rank), heartbeatSeconds(heartbeatSeconds),
      limitSeconds(limitSeconds), peers(mesh.size()), lastLook(Clock::now()) {
  for (Peer &peer : peers)
    peer.lastChange = lastLook;
}

void PeerWatch::forgiveOwnPause(Clock::time_point now) {
  // After a pause of its own (a busy machine, a debugger, a slow store) this
  // rank has seen no heartbeats, so that time does not count against its peers.
  Clock::duration gap = now - lastLook;
  lastLook = now;
  if (secondsOf(gap) > 2 * heartbeatSeconds)
    for (Peer &peer : peers)
      peer.lastChange += gap;
}

std::optional<std::string>
PeerWatch::judge(const std::vector<std::string> &statuses) {
  Clock::time_point now = Clock::now();
  forgiveOwnPause(now);
  std::optional<std::string> ownWords, othersVerdict;
  bool someoneSilent = false;
  for (uint32_t other = 0; other < peers.size(); ++other) {
    Peer &peer = peers[other];
    if (statuses[other] != peer.status)
      peer = {statuses[other], now};
    if (other == rank)
      continue;
    if (peer.state() == status::failed && !ownWords)
      ownWords =
          describeRank(mesh, other) + " failed: " + peer.status.substr(1);
    if (peer.state() == status::ended && !othersVerdict)
      othersVerdict = peer.status.substr(1);
    someoneSilent |= peer.state() == status::alive &&
                     secondsOf(now - peer.lastChange) > limitSeconds;
  }
  if (ownWords)
    return ownWords;
  if (othersVerdict)
    return othersVerdict;
  if (!someoneSilent)
    return std::nullopt;
  // Ranks that died together pass the limit up to two heartbeats apart.
  return describeSilent(limitSeconds - 2 * heartbeatSeconds);
}

bool PeerWatch::everyoneIsDone() const {
  for (const Peer &peer : peers)
    if (peer.state() != status::done)
      return false;
  return true;
}

std::string PeerWatch::describeSilent(double longerThanSeconds) const {
  std::string text;
  Clock::time_point now = Clock::now();
  for (uint32_t other = 0; other < peers.size(); ++other) {
    double silence = secondsOf(now - peers[other].lastChange);
    if (other == rank || peers[other].state() != status::alive ||
        silence <= longerThanSeconds)
      continue;
    text += (text.empty() ? "" : "; ") + describeRank(mesh, other) +
            " stopped: no heartbeat for " + std::to_string(int(silence)) + " s";
  }
  return text;
}

} // namespace fcdp
