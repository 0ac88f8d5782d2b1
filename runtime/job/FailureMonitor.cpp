// SPDX-License-Identifier: Apache-2.0

#include "job/FailureMonitor.h"
#include "core/Thread.h"
#include "job/PeerWatch.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>

namespace fcdp {
namespace {

/// The most heartbeats for which the rank that serves the store stays, so that
/// others can read why it ends.
constexpr double stayBeats = 10;
/// The same after a transfer has timed out, since all ranks have waited
/// already.
constexpr double lateStayBeats = 0.7;
/// Interval at which the rank that serves the store checks whether the others
/// are done.
constexpr double finishPollSeconds = 0.05;
/// Number of heartbeats after which a silent rank is named if there is another
/// failure.
constexpr double kSilentBeats = 2;

using MonitorClock = std::chrono::steady_clock;

std::string statusKey(uint32_t rank) {
  return "status/" + std::to_string(rank);
}

} // namespace

void publishAlive(KeyValueStore &store, uint32_t rank) {
  store.set(statusKey(rank), std::string(1, status::alive) + "0");
}

/// State that the threads share.
class FailureMonitor::State {
public:
  State(std::shared_ptr<KeyValueStore> beats,
        std::shared_ptr<KeyValueStore> looks, FailureMonitorOptions options);

  void runBeater();
  void runLooker();

  /// Sets this rank's last status. Returns whether the store has it. It does
  /// not if another one was set before, or if the store is gone.
  bool publish(const std::string &status);
  /// Gives the other ranks time to read from the store that this rank serves.
  void stayForOthers(bool isLate = false);
  void announceEnd(int64_t steps);
  void stop();
  /// Returns whether the looker has ended. Must be called with the mutex
  /// locked.
  bool isEnded() const { return lookerEnded; }
  /// Returns a text if the store has not answered for a while, or an empty one.
  /// Must be called with the mutex locked.
  std::string describeSilentStore() const;

  const FailureMonitorOptions options;
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<std::string> verdict;
  bool claimed = false; ///< whether a thread reports the verdict
  bool finishing = false, allDone = false, stopping = false;
  /// Whether the looker looks without waiting for the next heartbeat.
  bool looksAtOnce = false;
  /// The ranks that have been silent for longer, by the last look.
  std::string silent;
  MonitorClock::time_point lastLook = MonitorClock::now();
  std::atomic<uint64_t> calls{0};
  std::atomic<int64_t> steps{0};

private:
  using Lock = std::unique_lock<std::mutex>;

  MonitorClock::duration staySeconds(double beats = stayBeats) const {
    return std::chrono::duration_cast<MonitorClock::duration>(
        std::chrono::duration<double>(
            std::min(options.limitSeconds, beats * options.heartbeatSeconds)));
  }
  void waitFor(Lock &lock, double seconds, const std::function<bool()> &done) {
    changed.wait_for(lock, std::chrono::duration<double>(seconds), done);
  }
  std::optional<std::string> look();
  void lookUntilOthersLeave();
  std::string describeLostStore(const StoreError &error) const;
  void leaveVerdict(const std::string &found);
  /// Returns whether the looker must report it.
  bool conclude(const std::string &found);
  bool takeLastStatus();

  const std::shared_ptr<KeyValueStore> beats, looks;
  PeerWatch peers; // used by the looker only
  std::vector<std::string> keys;
  bool hasLastStatus = false, lookerEnded = false;
  std::atomic<bool> othersHaveLeft{false};
  /// Orders a heartbeat and the last status.
  std::mutex beating;
  /// The status in heartbeats, before their number: that the rank is alive, or
  /// that it makes no more calls. Guarded by `beating`.
  std::string beatText = std::string(1, status::alive);
};

FailureMonitor::State::State(std::shared_ptr<KeyValueStore> beats,
                             std::shared_ptr<KeyValueStore> looks,
                             FailureMonitorOptions givenOptions)
    : options(std::move(givenOptions)), beats(std::move(beats)),
      looks(std::move(looks)),
      peers(options.mesh, options.rank, options.limitSeconds) {
  for (uint32_t rank = 0; rank < options.mesh.size(); ++rank)
    keys.push_back(statusKey(rank));
  // The others know at once when this process ends, for whatever reason.
  this->beats->leaveWill(keys[options.rank], std::string(1, status::gone));
}

void FailureMonitor::State::runBeater() {
  for (uint64_t beat = 1;; ++beat) {
    {
      std::lock_guard<std::mutex> order(beating);
      Lock lock(mutex);
      if (hasLastStatus || stopping)
        return;
      lock.unlock();
      try {
        beats->post(keys[options.rank], beatText + std::to_string(beat));
      } catch (const StoreError &) {
        return; // the looker finds why
      }
    }
    Lock lock(mutex);
    waitFor(lock, options.heartbeatSeconds,
            [this] { return stopping || hasLastStatus; });
  }
}

std::optional<std::string> FailureMonitor::State::look() {
  const std::vector<std::string> statuses =
      looks->await(keys, options.limitSeconds, [this] {
        Lock lock(mutex);
        return stopping;
      });
  std::optional<std::string> found = peers.judge(statuses, {calls, steps});
  Lock lock(mutex);
  lastLook = MonitorClock::now();
  silent = peers.describeSilent(kSilentBeats * options.heartbeatSeconds);
  allDone = peers.everyoneIsDone();
  othersHaveLeft = peers.othersHaveLeft();
  changed.notify_all();
  return found;
}

void FailureMonitor::State::lookUntilOthersLeave() {
  const auto end = MonitorClock::now() + staySeconds();
  try {
    while (!othersHaveLeft && MonitorClock::now() < end) {
      Lock lock(mutex);
      waitFor(lock, finishPollSeconds, [this] { return stopping; });
      if (stopping)
        return;
      lock.unlock();
      look();
    }
  } catch (const StoreError &) {
    // No rank can read it any more.
  }
}

void FailureMonitor::State::runLooker() {
  std::optional<std::string> found;
  for (;;) {
    try {
      found = look();
    } catch (const StoreError &error) {
      found = describeLostStore(error);
    }
    Lock lock(mutex);
    if (stopping)
      found.reset(); // nobody waits for it, and the store may have ended
    if (found || stopping)
      break;
    waitFor(lock, finishing ? finishPollSeconds : options.heartbeatSeconds,
            [this] { return stopping || hasLastStatus || looksAtOnce; });
    looksAtOnce = false;
    if (hasLastStatus && !stopping)
      waitFor(lock, finishPollSeconds, [this] { return stopping; });
  }
  if (found) {
    leaveVerdict(*found);
    const bool isReporter = conclude(*found);
    if (options.holdsStore)
      lookUntilOthersLeave();
    if (isReporter)
      options.onFailure(*found);
  }
  Lock lock(mutex);
  lookerEnded = true;
  changed.notify_all();
}

std::string
FailureMonitor::State::describeLostStore(const StoreError &error) const {
  std::string text =
      options.storeOwner + " is gone or does not answer: " + error.what();
  std::string before =
      peers.describeSilent(kSilentBeats * options.heartbeatSeconds);
  return before.empty() ? text : text + "; before that, " + before;
}

std::string FailureMonitor::State::describeSilentStore() const {
  const double seconds =
      std::chrono::duration<double>(MonitorClock::now() - lastLook).count();
  if (options.holdsStore || seconds <= kSilentBeats * options.heartbeatSeconds)
    return "";
  return options.storeOwner + " does not answer: nothing for " +
         std::to_string(int(seconds)) + " s";
}

bool FailureMonitor::State::takeLastStatus() {
  Lock lock(mutex);
  if (hasLastStatus)
    return false;
  hasLastStatus = true;
  changed.notify_all();
  return true;
}

void FailureMonitor::State::leaveVerdict(const std::string &found) {
  // This rank ends now, and slower ranks would blame it.
  if (!takeLastStatus())
    return;
  std::lock_guard<std::mutex> order(beating);
  try {
    beats->post(keys[options.rank], status::ended + found);
    beats->leaveWill(keys[options.rank], status::ended + found);
  } catch (const StoreError &) {
    // The others find the same failure themselves.
  }
}

bool FailureMonitor::State::conclude(const std::string &found) {
  Lock lock(mutex);
  verdict = found;
  const bool isReporter = !claimed && !stopping && options.onFailure;
  claimed = true;
  changed.notify_all();
  return isReporter;
}

bool FailureMonitor::State::publish(const std::string &status) {
  if (!takeLastStatus())
    return false;
  std::lock_guard<std::mutex> order(beating);
  try {
    const std::string &key = keys[options.rank];
    const bool isDone = status[0] == status::done;
    beats->leaveWill(key, isDone ? std::string(1, status::left) : status);
    // A failure does not wait for a store that does not answer.
    Lock lock(mutex);
    const bool answers = describeSilentStore().empty();
    lock.unlock();
    if (isDone || answers)
      beats->set(key, status);
    else
      beats->post(key, status);
    if (isDone && !options.holdsStore) {
      // From here on the store may end without a failure.
      stop();
      beats->post(key, std::string(1, status::left));
    }
    return true;
  } catch (const StoreError &) {
    return false;
  }
}

void FailureMonitor::State::announceEnd(int64_t madeSteps) {
  std::lock_guard<std::mutex> order(beating);
  {
    Lock lock(mutex);
    if (hasLastStatus)
      return;
  }
  beatText = status::closing + encode(ClosedSession{calls, madeSteps}) + " ";
  try {
    beats->post(keys[options.rank], beatText + "0");
  } catch (const StoreError &) {
    // The looker finds the reason.
  }
}

void FailureMonitor::State::stayForOthers(bool isLate) {
  if (!options.holdsStore)
    return;
  Lock lock(mutex);
  changed.wait_for(lock, staySeconds(isLate ? lateStayBeats : stayBeats),
                   [this] { return othersHaveLeft || lookerEnded; });
}

void FailureMonitor::State::stop() {
  Lock lock(mutex);
  stopping = true;
  changed.notify_all();
}

FailureMonitor::FailureMonitor(std::shared_ptr<KeyValueStore> beats,
                               std::shared_ptr<KeyValueStore> looks,
                               FailureMonitorOptions options)
    : state(std::make_unique<State>(std::move(beats), std::move(looks),
                                    std::move(options))) {
  beater = startThread("fcdp-heartbeat",
                       [state = state.get()] { state->runBeater(); });
  try {
    looker = startThread("fcdp-monitor",
                         [state = state.get()] { state->runLooker(); });
  } catch (...) {
    state->stop();
    beater.join();
    throw;
  }
}

FailureMonitor::~FailureMonitor() {
  state->stop();
  beater.join();
  looker.join();
}

void FailureMonitor::publishFailure(const std::string &message, bool isLate) {
  {
    std::lock_guard<std::mutex> lock(state->mutex);
    state->claimed = true;
  }
  if (state->publish(status::failed + message))
    state->stayForOthers(isLate);
}

std::optional<std::string> FailureMonitor::findCause(double seconds,
                                                     bool isLate) {
  std::unique_lock<std::mutex> lock(state->mutex);
  state->claimed = true;
  state->looksAtOnce = true;
  state->changed.notify_all();
  state->changed.wait_for(lock, std::chrono::duration<double>(seconds),
                          [this] { return state->verdict.has_value(); });
  const std::optional<std::string> found = state->verdict;
  lock.unlock();
  if (found)
    state->stayForOthers(isLate);
  return found;
}

void FailureMonitor::beginCall(int64_t steps) noexcept {
  state->steps = steps;
  ++state->calls;
}

void FailureMonitor::announceEnd(int64_t steps) { state->announceEnd(steps); }

std::optional<std::string> FailureMonitor::describeSilent() {
  std::lock_guard<std::mutex> lock(state->mutex);
  std::string text = state->describeSilentStore();
  if (text.empty())
    text = state->silent;
  return text.empty() ? std::nullopt : std::optional(text);
}

void FailureMonitor::finish() {
  {
    std::lock_guard<std::mutex> lock(state->mutex);
    state->finishing = true;
  }
  const bool isKnown = state->publish(std::string(1, status::done));
  std::unique_lock<std::mutex> lock(state->mutex);
  if (state->options.holdsStore || !isKnown)
    state->changed.wait(lock, [this] {
      return state->allDone || state->verdict || state->isEnded();
    });
  std::optional<std::string> found;
  if (!state->allDone)
    found = state->verdict;
  lock.unlock();
  state->stayForOthers();
  if (found)
    throw Failure(*found, FailureKind::PeerFailed);
  // This rank is done, so from now on the end of other ranks is not a failure.
  state->stop();
}

double FailureMonitor::heartbeat() const {
  return state->options.heartbeatSeconds;
}

double FailureMonitor::limit() const { return state->options.limitSeconds; }

} // namespace fcdp
