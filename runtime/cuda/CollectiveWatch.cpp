// SPDX-License-Identifier: Apache-2.0

#include "cuda/CollectiveWatch.h"
#include "core/Thread.h"
#include "cuda/Seconds.h"

#include <algorithm>

namespace fcdp {
namespace {

/// Interval of the checks. A failure is found after at most this time.
constexpr std::chrono::milliseconds lookInterval(20);

/// Compares numbers that wrap around. At most half of all numbers are in
/// flight.
bool isReached(uint32_t mark, uint32_t number) {
  return int32_t(mark - number) >= 0;
}

} // namespace

CollectiveWatch::CollectiveWatch(const CollectiveWatchOptions &givenOptions,
                                 FirstFailure &failure)
    : options(givenOptions), failure(failure) {
  const CudaLibrary &cuda = *options.cuda;
  cuda.check(cuda.cudaHostAlloc(reinterpret_cast<void **>(&marks),
                                kNumStreams * sizeof(Marks),
                                cudaHostAllocPortable),
             "cudaHostAlloc");
  std::fill(marks, marks + kNumStreams, Marks{0, 0});
  thread = startThread("fcdp-watch", [this] { run(); });
}

CollectiveWatch::~CollectiveWatch() {
  stop();
  (void)options.cuda->cudaFreeHost(marks);
}

void CollectiveWatch::stop() {
  {
    std::lock_guard<std::mutex> lock(mutex);
    stopping = true;
  }
  changed.notify_all();
  if (thread.joinable())
    thread.join();
}

void CollectiveWatch::add(DeviceGroup &group) {
  std::lock_guard<std::mutex> lock(mutex);
  groups.push_back(&group);
}

void CollectiveWatch::write(cudaStream_t on, const uint32_t &mark,
                            uint32_t number) const {
  // All platforms that CUDA supports have one address space for host and
  // device.
  options.cuda->check(options.cuda->cuStreamWriteValue32(
                          on, CUdeviceptr(reinterpret_cast<uintptr_t>(&mark)),
                          number, CU_STREAM_WRITE_VALUE_DEFAULT),
                      "cuStreamWriteValue32");
}

void CollectiveWatch::begin(StreamId stream, cudaStream_t on, const char *what,
                            DeviceGroup &group) {
  uint32_t number;
  {
    std::lock_guard<std::mutex> lock(mutex);
    Stream &own = streams[size_t(stream)];
    number = ++own.issued;
    own.inFlight.push_back({what, &group, number, {}});
  }
  write(on, marks[size_t(stream)].begun, number);
}

void CollectiveWatch::end(StreamId stream, cudaStream_t on) {
  // Only the issuer changes the number, and it is the caller.
  write(on, marks[size_t(stream)].ended, streams[size_t(stream)].issued);
}

CollectiveWatch::Marks CollectiveWatch::read(StreamId stream) const {
  Marks &at = marks[size_t(stream)];
  return {__atomic_load_n(&at.begun, __ATOMIC_ACQUIRE),
          __atomic_load_n(&at.ended, __ATOMIC_ACQUIRE)};
}

std::string CollectiveWatch::describe(const InFlight &collective,
                                      const std::string &text) const {
  return std::string(collective.what) + ": " +
         describe(*collective.group, text);
}

std::string CollectiveWatch::describe(DeviceGroup &group,
                                      const std::string &text) const {
  return "rank " + std::to_string(options.worldRank) + ": with " +
         group.describePeers() + ": " + text;
}

std::optional<Failure> CollectiveWatch::lookAtStream(StreamId stream,
                                                     Clock::time_point now) {
  Marks at = read(stream);
  std::vector<InFlight> &inFlight = streams[size_t(stream)].inFlight;
  auto first =
      std::find_if(inFlight.begin(), inFlight.end(), [&](const InFlight &one) {
        return !isReached(at.ended, one.number);
      });
  inFlight.erase(inFlight.begin(), first);
  if (inFlight.empty() || !isReached(at.begun, inFlight.front().number))
    return std::nullopt;
  InFlight &running = inFlight.front();
  if (running.seenBegun == Clock::time_point())
    running.seenBegun = now;
  double seconds =
      std::chrono::duration<double>(now - running.seenBegun).count();
  if (seconds < options.timeoutSeconds)
    return std::nullopt;
  return Failure(describe(running, "timed out after " +
                                       spellSeconds(options.timeoutSeconds)),
                 FailureKind::TimedOut);
}

std::optional<Failure> CollectiveWatch::look(Clock::time_point now) {
  for (size_t stream = 0; stream < kNumStreams; ++stream)
    if (auto found = lookAtStream(StreamId(stream), now))
      return found;
  for (DeviceGroup *group : groups) {
    auto error = group->findError();
    if (!error)
      continue;
    // Blame the oldest collective that has not ended: the error makes it hang.
    for (const Stream &stream : streams)
      for (const InFlight &collective : stream.inFlight)
        if (collective.group == group)
          return Failure(describe(collective, *error));
    return Failure(describe(*group, *error));
  }
  return std::nullopt;
}

void CollectiveWatch::run() {
  std::unique_lock<std::mutex> lock(mutex);
  auto isStopped = [this] { return stopping; };
  while (!failure.failed()) {
    if (changed.wait_for(lock, lookInterval, isStopped))
      return;
    if (auto found = look(Clock::now()))
      failure.set(found->what(), found->kind());
  }
  freeIssuer(lock);
}

void CollectiveWatch::freeIssuer(std::unique_lock<std::mutex> &lock) {
  auto isOver = [this] { return stopping || isNoticed; };
  const auto deadline =
      Clock::now() + std::chrono::duration<double>(options.noticeSeconds);
  while (!isOver() && Clock::now() < deadline)
    changed.wait_for(lock, lookInterval, isOver);
  if (isOver())
    return;
  // The issuer may need the lock.
  std::vector<DeviceGroup *> aborted = groups;
  lock.unlock();
  if (options.onBlocked)
    options.onBlocked(Failure(failure.message(), failure.kind()));
  abortAll(aborted, options.whileAborting);
  lock.lock();
}

} // namespace fcdp
