// SPDX-License-Identifier: Apache-2.0
//
// When the operations of a running step began and ended, by stream.
#pragma once

#include "core/StreamWorker.h"

#include <array>
#include <string>
#include <vector>

namespace fcdp {

/// Of std::chrono::steady_clock, in seconds.
double readClock();

/// What one step did. Whoever does not want to know gives nobody a recorder,
/// and then no operation looks for one. Each stream's spans are written by its
/// own thread, all else by the issuer; to be read when no stream has work.
class StepRecorder {
public:
  struct Span {
    double begin, end; ///< of readClock
  };
  /// An operation in the order of issue on its stream.
  struct Issue {
    size_t op;       ///< of the manifest
    size_t function; ///< index into `functions`
  };

  /// `ops` is how many operations the manifest has.
  explicit StepRecorder(size_t ops) : keys(ops) {}

  /// Forgets what was recorded but keys, and keeps its memory.
  void beginStep();
  void beginFunction(const std::string &name);
  /// `op` will be the next on `stream` that adds a span.
  void issue(StreamId stream, size_t op) {
    issues[size_t(stream)].push_back({op, functions.size() - 1});
  }
  void add(StreamId stream, Span span) {
    spans[size_t(stream)].push_back(span);
  }

  /// When the step began, of readClock.
  double getBegin() const { return begin; }
  /// Those called, in their order.
  const std::vector<std::string> &getFunctions() const { return functions; }
  const std::vector<Issue> &getIssues(StreamId stream) const {
    return issues[size_t(stream)];
  }
  /// One for each issue, unless the step has failed.
  const std::vector<Span> &getSpans(StreamId stream) const {
    return spans[size_t(stream)];
  }

  /// Of an ATen call: operator and tensors, as docs/profile.md has them. Empty
  /// before it ran first.
  std::string &getKey(size_t op) { return keys[op]; }
  const std::string &getKey(size_t op) const { return keys[op]; }

private:
  double begin = 0;
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
