// SPDX-License-Identifier: Apache-2.0

#include "job/PeerWatch.h"

#include <algorithm>
#include <sstream>

namespace fcdp {

/// The least number of looks in which a rank can be silent for the limit.
static constexpr double looksInLimit = 3;
/// The share of the limit after which ranks count as dead together. Ranks that
/// died together pass the limit up to two looks apart.
static constexpr double togetherInLimit = 1 - 1 / looksInLimit;

std::string encode(const ClosedSession &closed) {
  return std::to_string(closed.calls) + " " + std::to_string(closed.steps);
}

ClosedSession decodeClosed(const std::string &text) {
  ClosedSession closed;
  std::istringstream(text) >> closed.calls >> closed.steps;
  return closed;
}

std::string countSteps(int64_t steps) {
  return std::to_string(steps) + (steps == 1 ? " step" : " steps");
}

PeerWatch::PeerWatch(const Mesh &mesh, uint32_t rank, double limitSeconds)
    : mesh(mesh), rank(rank), limitSeconds(limitSeconds), peers(mesh.size()),
      lastLook(Clock::now()) {}

std::optional<std::string>
PeerWatch::judge(const std::vector<std::string> &statuses,
                 const ClosedSession &own) {
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
    if (peer.beats())
      silence = std::max(silence, peer.silentSeconds);
  }
  if (ownWords)
    return ownWords;
  if (std::string closed = describeClosed(own); !closed.empty())
    return closed;
  // Other ranks have reported this rank dead: it was stopped, or its link was
  // interrupted.
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
    const bool reads =
        (peer.beats() && !isSilent(peer)) || peer.state() == status::done;
    if (other != rank && reads)
      return false;
  }
  return true;
}

std::string PeerWatch::describeClosed(const ClosedSession &own) const {
  std::string text;
  for (uint32_t other = 0; other < peers.size(); ++other) {
    if (other == rank || peers[other].state() != status::closing)
      continue;
    const ClosedSession closed = decodeClosed(peers[other].status.substr(1));
    if (closed.calls < own.calls)
      text += (text.empty() ? "" : "; ") + describeRank(mesh, other) +
              " has ended its loop after " + countSteps(closed.steps);
  }
  if (!text.empty())
    text += ", but " + describeRank(mesh, rank) + " goes on after " +
            countSteps(own.steps);
  return text;
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
    if (other == rank || !peer.beats() ||
        peer.silentSeconds <= longerThanSeconds)
      continue;
    text += (text.empty() ? "" : "; ") + describeRank(mesh, other) +
            " stopped: no heartbeat for " +
            std::to_string(int(peer.silentSeconds)) + " s";
  }
  return text;
}

} // namespace fcdp
