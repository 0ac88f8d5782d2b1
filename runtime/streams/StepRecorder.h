// SPDX-License-Identifier: Apache-2.0
//
// Records when the operations of a running step began and ended, by stream.
#pragma once

#include "streams/StreamWorker.h"

#include <array>
#include <string>
#include <vector>

namespace fcdp {

/// Returns the time of std::chrono::steady_clock, in seconds.
double readClock();

/// Measures when a device's streams reach marked points. Used by the issuer.
/// Functions throw std::runtime_error.
class StreamClock {
public:
  virtual ~StreamClock() = default;
  /// Discards all marks. No stream may have work.
  virtual void begin() = 0;
  /// Marks the end of all work that is queued on `stream`.
  virtual void mark(StreamId stream) = 0;
  /// Returns the times of readClock at which the marks on `stream` were
  /// reached, in the order of issue. No stream may have work.
  virtual std::vector<double> read(StreamId stream) const = 0;
};

/// Records the operations of one step. The recorder is optional; without one
/// there is no overhead. If streams are threads, each writes its own spans; the
/// issuing thread writes everything else. Results may be read when no stream
/// has work.
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

  /// `ops` is the number of operations in the plan.
  explicit StepRecorder(size_t ops) : keys(ops) {}

  /// Makes `clock` measure times from now on; it must outlive the last step.
  /// Without it times are the host's.
  void measureBy(StreamClock &clock) { this->clock = &clock; }

  /// Discards all records except keys, and keeps the memory.
  void beginStep();
  /// Ends the step. No stream may have work.
  void endStep();
  void beginFunction(const std::string &name);
  /// Pauses recording, or resumes it. No stream may have work.
  void pause(bool isPaused) { paused = isPaused; }
  /// Records that `op` is the next operation on `stream` that adds a span.
  void issue(StreamId stream, size_t op) {
    if (!paused)
      issues[size_t(stream)].push_back({op, functions.size() - 1});
  }
  /// Called before and after the issue of an operation. An operation on another
  /// stream than compute is timed here only if a device runs it.
  void beginSpan(StreamId stream);
  void endSpan(StreamId stream);
  void add(StreamId stream, Span span) {
    if (!paused)
      spans[size_t(stream)].push_back(span);
  }

  /// Returns the time of readClock at which the step began.
  double getBegin() const { return begin; }
  /// Returns the functions that were called, in order.
  const std::vector<std::string> &getFunctions() const { return functions; }
  const std::vector<Issue> &getIssues(StreamId stream) const {
    return issues[size_t(stream)];
  }
  /// Returns one span for each issue, unless the step has failed.
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

/// Executes commands by another executor, and records the duration of those on
/// streams other than compute.
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
