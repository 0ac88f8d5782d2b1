// SPDX-License-Identifier: Apache-2.0

#include "collectives/PeerWatch.h"

#include <algorithm>

namespace fcdp {

/// The least number of looks in which a rank can be silent for the limit.
static constexpr double looksInLimit = 3;
/// Ranks that died together pass the limit up to two looks apart.
static constexpr double togetherInLimit = 1 - 1 / looksInLimit;

PeerWatch::PeerWatch(const Mesh &mesh, uint32_t rank, double limitSeconds)
    : mesh(mesh), rank(rank), limitSeconds(limitSeconds), peers(mesh.size()),
      lastLook(Clock::now()) {}

std::optional<std::string>
PeerWatch::judge(const std::vector<std::string> &statuses) {
  const Clock::time_point now = Clock::now();
  const double passed =
      std::min(std::chrono::duration<double>(now - lastLook).count(),
               limitSeconds / looksInLimit);
  lastLook = now;
  std::optional<std::string> ownWords, othersVerdict;
  double silence = 0;
  for (uint32_t other = 0; other < peers.size(); ++other) {
    Peer &peer = peers[other];
    if (statuses[other] != peer.status)
      peer = {statuses[other], 0};
    else
      peer.silentSeconds += passed;
    if (other == rank)
      continue;
    if (peer.state() == status::failed && !ownWords)
      ownWords =
          describeRank(mesh, other) + " failed: " + peer.status.substr(1);
    if (peer.state() == status::ended && !othersVerdict)
      othersVerdict = peer.status.substr(1);
    if (peer.state() == status::alive)
      silence = std::max(silence, peer.silentSeconds);
  }
  if (ownWords)
    return ownWords;
  // What others say of this rank: it was stopped, or its link was.
  if (othersVerdict)
    return othersVerdict;
  if (std::string gone = describeGone(); !gone.empty())
    return gone;
  if (silence <= limitSeconds)
    return std::nullopt;
  return describeSilent(limitSeconds * togetherInLimit);
}

bool PeerWatch::isSilent(const Peer &peer) const {
  return peer.silentSeconds > limitSeconds * togetherInLimit;
}

bool PeerWatch::everyoneIsDone() const {
  return std::all_of(peers.begin(), peers.end(), [](const Peer &peer) {
    return peer.state() == status::done || peer.state() == status::left;
  });
}

bool PeerWatch::othersHaveLeft() const {
  for (uint32_t other = 0; other < peers.size(); ++other) {
    const Peer &peer = peers[other];
    const bool reads = (peer.state() == status::alive && !isSilent(peer)) ||
                       peer.state() == status::done;
    if (other != rank && reads)
      return false;
  }
  return true;
}

std::string PeerWatch::describeGone() const {
  std::string text;
  for (uint32_t other = 0; other < peers.size(); ++other)
    if (other != rank && peers[other].state() == status::gone)
      text += (text.empty() ? "" : "; ") + describeRank(mesh, other) +
              " stopped: its process has ended, or its connection to the "
              "job's store";
  return text;
}

std::string PeerWatch::describeSilent(double longerThanSeconds) const {
  std::string text;
  for (uint32_t other = 0; other < peers.size(); ++other) {
    const Peer &peer = peers[other];
    if (other == rank || peer.state() != status::alive ||
        peer.silentSeconds <= longerThanSeconds)
      continue;
    text += (text.empty() ? "" : "; ") + describeRank(mesh, other) +
            " stopped: no heartbeat for " +
            std::to_string(int(peer.silentSeconds)) + " s";
  }
  return text;
}

} // namespace fcdp
