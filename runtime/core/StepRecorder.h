// SPDX-License-Identifier: Apache-2.0
//
// When the operations of a running step began and ended, by stream.
#pragma once

#include "core/StreamWorker.h"

#include <array>
#include <string>
#include <vector>

namespace fcdp {

/// Returns the time of std::chrono::steady_clock, in seconds.
double readClock();

/// Tells when a device's streams reached points of theirs. Used by the issuer.
/// Functions throw std::runtime_error.
class StreamClock {
public:
  virtual ~StreamClock() = default;
  /// Forgets all marks. No stream has work.
  virtual void begin() = 0;
  /// Behind all that is queued on `stream`.
  virtual void mark(StreamId stream) = 0;
  /// When the marks on `stream` were reached, of readClock, in the order of
  /// issue. No stream has work.
  virtual std::vector<double> read(StreamId stream) const = 0;
};

/// Records what one step did. The recorder is optional; without one there is no
/// overhead. If streams are threads, each writes its own spans; the issuing
/// thread writes everything else. May be read when no stream has work.
class StepRecorder {
public:
  struct Span {
    double begin, end; ///< of readClock
  };
  /// An operation in the order of issue on its stream.
  struct Issue {
    size_t op;       ///< of the plan
    size_t function; ///< index into `functions`
  };

  /// `ops` is how many operations the plan has.
  explicit StepRecorder(size_t ops) : keys(ops) {}

  /// Makes `clock` measure times from now on; it must outlive the last step.
  /// Without it times are the host's.
  void measureBy(StreamClock &clock) { this->clock = &clock; }

  /// Forgets what was recorded but keys, and keeps its memory.
  void beginStep();
  /// When no stream has work.
  void endStep();
  void beginFunction(const std::string &name);
  /// Records nothing from now on, or again. When no stream has work.
  void pause(bool isPaused) { paused = isPaused; }
  /// `op` will be the next on `stream` that adds a span.
  void issue(StreamId stream, size_t op) {
    if (!paused)
      issues[size_t(stream)].push_back({op, functions.size() - 1});
  }
  /// Around the issue of an operation; what is on another stream than compute
  /// is timed here only if a device does it.
  void beginSpan(StreamId stream);
  void endSpan(StreamId stream);
  void add(StreamId stream, Span span) {
    if (!paused)
      spans[size_t(stream)].push_back(span);
  }

  /// When the step began, of readClock.
  double getBegin() const { return begin; }
  /// Returns the functions that were called, in order.
  const std::vector<std::string> &getFunctions() const { return functions; }
  const std::vector<Issue> &getIssues(StreamId stream) const {
    return issues[size_t(stream)];
  }
  /// One for each issue, unless the step has failed.
  const std::vector<Span> &getSpans(StreamId stream) const {
    return spans[size_t(stream)];
  }

  /// Returns the operator and tensors of an ATen call in the form of
  /// docs/profile.md. Empty before its first run.
  std::string &getKey(size_t op) { return keys[op]; }
  const std::string &getKey(size_t op) const { return keys[op]; }

private:
  StreamClock *clock = nullptr;
  bool paused = false;
  double begin = 0;
  /// Begin of the operation that the issuing thread runs; there is one at a
  /// time.
  double spanBegin = 0;
  std::vector<std::string> functions;
  std::array<std::vector<Issue>, kNumStreams> issues;
  std::array<std::vector<Span>, kNumStreams> spans;
  std::vector<std::string> keys;
};

/// Carries out commands as another executor does, and records how long those
/// take that have a stream other than compute.
class RecordingExecutor final : public CommandExecutor {
public:
  RecordingExecutor(CommandExecutor &run, StepRecorder &recorder)
      : run(run), recorder(recorder) {}
  void execute(StreamId stream, const Command &command) override;
  void interrupt() noexcept override { run.interrupt(); }

private:
  CommandExecutor &run;
  StepRecorder &recorder;
};

} // namespace fcdp
