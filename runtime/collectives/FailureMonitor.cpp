// SPDX-License-Identifier: Apache-2.0

#include "collectives/FailureMonitor.h"
#include "collectives/PeerWatch.h"

#include <condition_variable>
#include <mutex>
#include <pthread.h>

namespace fcdp {
namespace {

/// Number of heartbeats within which every other rank has read the store.
constexpr double readBeats = 2.5;
/// Interval at which the rank that serves the store checks whether the others
/// are done.
constexpr double finishPollSeconds = 0.05;

std::string statusKey(uint32_t rank) {
  return "status/" + std::to_string(rank);
}

void sleepFor(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

} // namespace

void publishAlive(KeyValueStore &store, uint32_t rank) {
  store.set(statusKey(rank), std::string(1, status::alive) + "0");
}

/// State that the threads share. Only the looker accesses the store.
class FailureMonitor::State {
public:
  State(std::shared_ptr<KeyValueStore> store, FailureMonitorOptions options);

  void runLooker();
  void runWatchdog();

  /// Makes the looker write this rank's final status, and waits until it has.
  void publish(const std::string &status);
  bool stopAndSeeWhetherLookerEnds();

  const FailureMonitorOptions options;
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<std::string> verdict;
  bool claimed = false; ///< whether a thread reports the verdict
  bool finishing = false, allDone = false, stopping = false;

private:
  using Lock = std::unique_lock<std::mutex>;

  void waitFor(Lock &lock, double seconds, const std::function<bool()> &done) {
    changed.wait_for(lock, std::chrono::duration<double>(seconds), done);
  }
  std::string statusToWrite();
  std::optional<std::string> look();
  void leaveVerdict(const std::string &found);
  void conclude(const std::string &found);

  const std::shared_ptr<KeyValueStore> store;
  PeerWatch peers; // used by the looker only
  std::vector<std::string> keys;
  uint64_t beats = 0;
  std::optional<std::string> finalStatus;
  bool finalStatusWritten = false;
  uint64_t looks = 0;
  bool looking = false, lookerStuck = false, lookerEnded = false;
};

FailureMonitor::State::State(std::shared_ptr<KeyValueStore> store,
                             FailureMonitorOptions givenOptions)
    : options(std::move(givenOptions)), store(std::move(store)),
      peers(options.mesh, options.rank, options.heartbeatSeconds,
            options.limitSeconds) {
  for (uint32_t rank = 0; rank < options.mesh.size(); ++rank)
    keys.push_back(statusKey(rank));
}

std::string FailureMonitor::State::statusToWrite() {
  Lock lock(mutex);
  ++looks;
  looking = true;
  return finalStatus ? *finalStatus : status::alive + std::to_string(++beats);
}

std::optional<std::string> FailureMonitor::State::look() {
  std::string own = statusToWrite();
  store->set(keys[options.rank], own);
  std::vector<std::string> statuses = store->getMany(keys);
  std::optional<std::string> found = peers.judge(statuses);
  Lock lock(mutex);
  looking = false;
  allDone = peers.everyoneIsDone();
  // A set is not acknowledged. Only reading the value back shows that it
  // arrived.
  finalStatusWritten = finalStatus && statuses[options.rank] == *finalStatus;
  changed.notify_all();
  return found;
}

void FailureMonitor::State::runLooker() {
  std::optional<std::string> found;
  try {
    for (;;) {
      found = look();
      Lock lock(mutex);
      if (stopping || allDone || found)
        break;
      waitFor(lock, finishing ? finishPollSeconds : options.heartbeatSeconds,
              [&] { return stopping || (finalStatus && !finalStatusWritten); });
    }
    if (found)
      leaveVerdict(*found);
  } catch (const StoreError &error) {
    found = options.storeOwner + " is gone: " + error.what();
    std::string silent = peers.describeSilent(2 * options.heartbeatSeconds);
    if (!silent.empty())
      *found += "; before that, " + silent;
  }
  if (found)
    conclude(*found);
  Lock lock(mutex);
  looking = false;
  lookerEnded = true;
  changed.notify_all();
}

void FailureMonitor::State::leaveVerdict(const std::string &found) {
  // This rank ends now, and slower ranks would blame it. So it writes the
  // verdict to the store, and the rank that serves the store gives them time to
  // read it.
  {
    Lock lock(mutex);
    if (finalStatus)
      return;
    finalStatus = status::ended + found;
  }
  store->set(keys[options.rank], statusToWrite());
  store->getMany({keys[options.rank]});
  {
    Lock lock(mutex);
    looking = false;
  }
  if (options.holdsStore)
    sleepFor(readBeats * options.heartbeatSeconds);
}

void FailureMonitor::State::conclude(const std::string &found) {
  bool report;
  {
    Lock lock(mutex);
    if (verdict)
      return;
    verdict = found;
    report = !claimed && !stopping;
    claimed = true;
  }
  changed.notify_all();
  if (report && options.onFailure)
    options.onFailure(found);
}

void FailureMonitor::State::runWatchdog() {
  // It counts its own ticks instead of time, because time also passes while
  // this process is stopped.
  uint64_t lastLook = 0;
  double silentSeconds = 0;
  Lock lock(mutex);
  while (!lookerEnded) {
    waitFor(lock, options.heartbeatSeconds, [this] { return lookerEnded; });
    if (!looking || looks != lastLook)
      silentSeconds = 0;
    else
      silentSeconds += options.heartbeatSeconds;
    lastLook = looks;
    if (silentSeconds < options.limitSeconds)
      continue;
    lookerStuck = true;
    lock.unlock();
    conclude(options.storeOwner + " has not answered for " +
             std::to_string(int(silentSeconds)) + " s");
    changed.notify_all();
    return;
  }
}

void FailureMonitor::State::publish(const std::string &status) {
  Lock lock(mutex);
  if (finalStatus)
    return;
  finalStatus = status;
  changed.notify_all();
  changed.wait(lock, [this] {
    return finalStatusWritten || lookerEnded || lookerStuck;
  });
}

bool FailureMonitor::State::stopAndSeeWhetherLookerEnds() {
  Lock lock(mutex);
  stopping = true;
  changed.notify_all();
  changed.wait(lock, [this] { return lookerEnded || lookerStuck; });
  return lookerEnded;
}

FailureMonitor::FailureMonitor(std::shared_ptr<KeyValueStore> store,
                               FailureMonitorOptions options)
    : state(std::make_shared<State>(std::move(store), std::move(options))) {
  looker = std::thread([state = state] { state->runLooker(); });
  watchdog = std::thread([state = state] { state->runWatchdog(); });
  pthread_setname_np(looker.native_handle(), "fcdp-monitor");
  pthread_setname_np(watchdog.native_handle(), "fcdp-watchdog");
}

FailureMonitor::~FailureMonitor() {
  if (state->stopAndSeeWhetherLookerEnds())
    looker.join();
  else
    looker.detach();
  watchdog.join();
}

void FailureMonitor::publishFailure(const std::string &message) {
  {
    std::lock_guard<std::mutex> lock(state->mutex);
    state->claimed = true;
  }
  state->publish(status::failed + message);
  if (state->options.holdsStore)
    sleepFor(readBeats * state->options.heartbeatSeconds);
}

std::optional<std::string> FailureMonitor::findCause(double seconds) {
  std::unique_lock<std::mutex> lock(state->mutex);
  state->claimed = true;
  state->changed.wait_for(lock, std::chrono::duration<double>(seconds),
                          [this] { return state->verdict.has_value(); });
  return state->verdict;
}

void FailureMonitor::finish() {
  {
    std::lock_guard<std::mutex> lock(state->mutex);
    state->finishing = true;
  }
  state->publish(std::string(1, status::done));
  std::unique_lock<std::mutex> lock(state->mutex);
  if (state->options.holdsStore)
    state->changed.wait(lock,
                        [this] { return state->allDone || state->verdict; });
  if (state->verdict && !state->allDone)
    throw Failure(*state->verdict, FailureKind::PeerFailed);
  // This rank is done, so from now on the end of other ranks is not a failure.
  state->stopping = true;
  state->changed.notify_all();
}

double FailureMonitor::heartbeat() const {
  return state->options.heartbeatSeconds;
}

double FailureMonitor::limit() const { return state->options.limitSeconds; }

} // namespace fcdp
