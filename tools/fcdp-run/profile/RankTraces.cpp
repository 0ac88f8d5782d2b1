// SPDX-License-Identifier: Apache-2.0
#include "profile/RankTraces.h"

#include <algorithm>
#include <limits>
#include <set>

namespace fcdp::run {

namespace {

/// The most spans that are kept. A span takes some 200 bytes of text, so a file
/// has some 200 MB at most, unless the spans of two ranks are more.
constexpr size_t kMostSpans = size_t(1) << 20;
/// The number of round trips. The fastest of them determines a clock best.
constexpr int kRoundTrips = 5;
constexpr const char *kWhat = "exchange of the trace";

/// A rank's clock at its answer, and at the beginning of its step.
struct RankClock {
  double now = 0, begin = 0; ///< of its readClock
};

template <typename T>
std::byte *bytesOf(T *values) {
  return reinterpret_cast<std::byte *>(values);
}

void answer(Transport &control, const StepRecorder &recorder) {
  for (int i = 0; i < kRoundTrips; ++i) {
    std::byte asked{};
    Recv recv{0, &asked, 1};
    control.exchange({}, {&recv, 1}, kWhat);
    RankClock clock{readClock(), recorder.getBegin()};
    Send send{0, bytesOf(&clock), sizeof(clock)};
    control.exchange({&send, 1}, {}, kWhat);
  }
}

/// Returns the begin of the step of `rank` by the clock of rank 0, which asks
/// for it.
double askBegin(Transport &control, uint32_t rank) {
  double begin = 0, quickest = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kRoundTrips; ++i) {
    std::byte asked{};
    RankClock clock;
    Send send{rank, &asked, 1};
    Recv recv{rank, bytesOf(&clock), sizeof(clock)};
    double before = readClock();
    control.exchange({&send, 1}, {&recv, 1}, kWhat);
    double after = readClock();
    if (after - before >= quickest)
      continue;
    quickest = after - before;
    begin = clock.begin + (before + after) / 2 - clock.now;
  }
  return begin;
}

/// Returns begins and ends in seconds from the step's beginning, stream by
/// stream.
std::vector<double> pack(const StepRecorder &recorder) {
  std::vector<double> times;
  for (size_t stream = 0; stream < kNumStreams; ++stream)
    for (const auto &span : recorder.getSpans(StreamId(stream)))
      for (double time : {span.begin, span.end})
        times.push_back(time - recorder.getBegin());
  return times;
}

/// Converts times to the spans of a rank. `own` has the same number of spans.
RankTrace unpack(uint32_t rank, double begin, const std::vector<double> &times,
                 const StepRecorder &own) {
  RankTrace trace;
  trace.rank = rank;
  trace.begin = begin;
  auto next = times.begin();
  for (size_t stream = 0; stream < kNumStreams; ++stream)
    for (size_t i = 0; i < own.getSpans(StreamId(stream)).size(); ++i) {
      trace.spans[stream].push_back({begin + next[0], begin + next[1]});
      next += 2;
    }
  return trace;
}

} // namespace

std::vector<uint32_t> chooseTraced(uint32_t ranks, uint32_t slowest,
                                   size_t spans) {
  size_t most = kMostSpans / std::max<size_t>(spans, 1);
  uint32_t count = std::clamp<size_t>(most, 2, std::max(ranks, 2u));
  std::set<uint32_t> chosen = {0, slowest};
  for (uint32_t i = 1; i < count && chosen.size() < count; ++i)
    chosen.insert(uint64_t(i) * ranks / count);
  return {chosen.begin(), chosen.end()};
}

void collectTraces(Job &job, const StepRecorder &recorder,
                   const std::vector<uint32_t> &traced,
                   const std::function<void(const RankTrace &)> &take) {
  Transport &control = job.control();
  std::vector<double> times = pack(recorder);
  size_t bytes = times.size() * sizeof(double);
  if (job.rank() != 0) {
    if (!std::binary_search(traced.begin(), traced.end(), job.rank()))
      return;
    answer(control, recorder);
    Send send{0, bytesOf(times.data()), bytes};
    control.exchange({&send, 1}, {}, kWhat);
    return;
  }
  std::vector<double> begins = {recorder.getBegin()};
  for (size_t i = 1; i < traced.size(); ++i)
    begins.push_back(askBegin(control, traced[i]));
  double first = *std::min_element(begins.begin(), begins.end());
  for (size_t i = 0; i < traced.size(); ++i) {
    if (i > 0) {
      Recv recv{traced[i], bytesOf(times.data()), bytes};
      control.exchange({}, {&recv, 1}, kWhat);
    }
    take(unpack(traced[i], begins[i] - first, times, recorder));
  }
}

} // namespace fcdp::run
