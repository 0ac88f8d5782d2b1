// SPDX-License-Identifier: Apache-2.0

#include "collectives/FailureMonitor.h"

#include <pthread.h>

namespace fcdp {
namespace {

// The first character of a rank's status.
constexpr char alive = 'a';  ///< then a counter
constexpr char done = 'd';   ///< needs the others no more
constexpr char failed = 'f'; ///< then its message
constexpr char ended = 'x';  ///< then the verdict on another rank

/// Within this many heartbeats every other rank has read the store.
constexpr double readBeats = 2.5;
/// How often the holder of the store looks whether the others are done.
constexpr double finishPollSeconds = 0.05;

std::string statusKey(uint32_t rank) {
  return "status/" + std::to_string(rank);
}

std::chrono::steady_clock::duration toDuration(double seconds) {
  return std::chrono::duration_cast<std::chrono::steady_clock::duration>(
      std::chrono::duration<double>(seconds));
}

} // namespace

void publishAlive(KeyValueStore &store, uint32_t rank) {
  store.set(statusKey(rank), std::string(1, alive) + "0");
}

FailureMonitor::FailureMonitor(KeyValueStore &store,
                               FailureMonitorOptions givenOptions)
    : store(store), options(std::move(givenOptions)),
      peers(options.mesh.size()), lastLook(Clock::now()) {
  for (uint32_t rank = 0; rank < options.mesh.size(); ++rank)
    keys.push_back(statusKey(rank));
  for (Peer &peer : peers)
    peer.lastChange = lastLook;
  thread = std::thread([this] { run(); });
  pthread_setname_np(thread.native_handle(), "fcdp-monitor");
}

FailureMonitor::~FailureMonitor() {
  {
    std::lock_guard<std::mutex> lock(mutex);
    stopping = true;
  }
  changed.notify_all();
  thread.join();
}

void FailureMonitor::beat() {
  std::lock_guard<std::mutex> lock(statusMutex);
  if (!statusIsFinal)
    store.set(keys[options.rank], alive + std::to_string(++beats));
}

bool FailureMonitor::setFinalStatus(const std::string &status) {
  std::lock_guard<std::mutex> lock(statusMutex);
  if (statusIsFinal)
    return false;
  statusIsFinal = true;
  try {
    store.set(keys[options.rank], status);
    // Setting is not answered: only the reading back shows that it arrived.
    return store.getMany({keys[options.rank]})[0] == status;
  } catch (const StoreError &) {
    return false; // nobody is left to be told
  }
}

void FailureMonitor::sleep(double seconds) {
  std::unique_lock<std::mutex> lock(mutex);
  changed.wait_for(lock, toDuration(seconds),
                   [this] { return stopping || finishing; });
}

void FailureMonitor::run() {
  for (;;) {
    std::optional<std::string> found;
    bool storeLost = false;
    try {
      beat();
      found = judge(store.getMany(keys));
    } catch (const StoreError &error) {
      storeLost = true;
      found = options.storeOwner + " is gone: " + error.what();
      std::string silent =
          describeSilent(toDuration(2 * options.heartbeatSeconds));
      if (!silent.empty())
        *found += "; before that, " + silent;
    }
    bool pollFast;
    {
      std::lock_guard<std::mutex> lock(mutex);
      if (stopping || allDone)
        return;
      pollFast = finishing;
    }
    if (found)
      return conclude(*found, storeLost);
    if (!pollFast)
      sleep(options.heartbeatSeconds);
    else
      std::this_thread::sleep_for(toDuration(finishPollSeconds));
  }
}

void FailureMonitor::forgiveOwnPause(Clock::time_point now) {
  // After a pause of its own (a busy machine, a debugger, a slow store) this
  // rank knows nothing about that time, so it counts against nobody.
  Clock::duration gap = now - lastLook;
  lastLook = now;
  if (gap > toDuration(2 * options.heartbeatSeconds))
    for (Peer &peer : peers)
      peer.lastChange += gap;
}

std::optional<std::string>
FailureMonitor::judge(const std::vector<std::string> &statuses) {
  Clock::time_point now = Clock::now();
  forgiveOwnPause(now);
  std::optional<std::string> ownWords, others;
  bool everyoneDone = true, someoneSilent = false;
  for (uint32_t rank = 0; rank < peers.size(); ++rank) {
    Peer &peer = peers[rank];
    if (statuses[rank] != peer.status)
      peer = {statuses[rank], now};
    char state = peer.status.empty() ? alive : peer.status[0];
    everyoneDone &= state == done;
    if (rank == options.rank)
      continue;
    if (state == failed && !ownWords)
      ownWords = describeRank(options.mesh, rank) +
                 " failed: " + peer.status.substr(1);
    if (state == ended && !others)
      others = peer.status.substr(1);
    someoneSilent |= state == alive &&
                     now - peer.lastChange > toDuration(options.limitSeconds);
  }
  if (everyoneDone) {
    std::lock_guard<std::mutex> lock(mutex);
    allDone = true;
    changed.notify_all();
  }
  if (ownWords)
    return ownWords;
  if (others)
    return others;
  if (!someoneSilent)
    return std::nullopt;
  // Ranks that died together pass the limit up to two heartbeats apart.
  return describeSilent(
      toDuration(options.limitSeconds - 2 * options.heartbeatSeconds));
}

std::string FailureMonitor::describeSilent(Clock::duration longerThan) const {
  std::string text;
  Clock::time_point now = Clock::now();
  for (uint32_t rank = 0; rank < peers.size(); ++rank) {
    const Peer &peer = peers[rank];
    Clock::duration silence = now - peer.lastChange;
    bool isAlive = !peer.status.empty() && peer.status[0] == alive;
    if (rank == options.rank || !isAlive || silence <= longerThan)
      continue;
    auto seconds = std::chrono::duration_cast<std::chrono::seconds>(silence);
    text += (text.empty() ? "" : "; ") + describeRank(options.mesh, rank) +
            " stopped: no heartbeat for " + std::to_string(seconds.count()) +
            " s";
  }
  return text;
}

void FailureMonitor::conclude(const std::string &found, bool storeLost) {
  // This rank ends now. Slower ones would blame it next, so it leaves the
  // verdict behind, and the store's holder leaves them the time to read it.
  if (!storeLost && setFinalStatus(ended + found) && options.holdsStore)
    std::this_thread::sleep_for(
        toDuration(readBeats * options.heartbeatSeconds));
  bool report;
  {
    std::lock_guard<std::mutex> lock(mutex);
    verdict = found;
    report = !claimed && !stopping;
    claimed = true;
  }
  changed.notify_all();
  if (report && options.onFailure)
    options.onFailure(found);
}

void FailureMonitor::publishFailure(const std::string &message) {
  {
    std::lock_guard<std::mutex> lock(mutex);
    claimed = true;
  }
  if (setFinalStatus(failed + message) && options.holdsStore)
    std::this_thread::sleep_for(
        toDuration(readBeats * options.heartbeatSeconds));
}

std::optional<std::string> FailureMonitor::findCause(double seconds) {
  std::unique_lock<std::mutex> lock(mutex);
  claimed = true;
  changed.wait_for(lock, toDuration(seconds),
                   [this] { return verdict.has_value(); });
  return verdict;
}

void FailureMonitor::finish() {
  setFinalStatus(std::string(1, done));
  std::unique_lock<std::mutex> lock(mutex);
  finishing = true;
  changed.notify_all();
  if (options.holdsStore)
    changed.wait(lock, [this] { return allDone || verdict; });
  if (verdict && !allDone)
    throw std::runtime_error(*verdict);
  // Done is done: the end of the others is no failure any more.
  stopping = true;
  changed.notify_all();
}

} // namespace fcdp
