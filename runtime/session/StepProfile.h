// SPDX-License-Identifier: Apache-2.0
//
// Measures durations of operations over the steps of a run. docs/profile.md
// describes the file.
#pragma once

#include "job/Job.h"
#include "plan/StepPlan.h"
#include "streams/StepRecorder.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace fcdp {

/// A profile of a run's steps. Used by one thread of each rank.
class StepProfile {
public:
  StepProfile(const StepPlan &plan, Job &job) : plan(plan), job(job) {}

  /// Adds the step in `recorder`. All ranks call it after each step that
  /// counts.
  void add(const StepRecorder &recorder);

  /// Returns the file's text on rank 0, the only rank that has all ranks'
  /// times.
  std::string toJson() const;

private:
  /// An entry of the file.
  struct Entry {
    /// "operators" or "operations".
    bool isOperator;
    /// The JSON members that are its keys, without "seconds" and "calls".
    std::string keys;
    size_t calls = 0;            ///< in a step
    std::vector<double> seconds; ///< of a call, one for each step
  };
  /// A measurement of one rank in one step. Ranks run one program, so they have
  /// the same samples in the same order.
  struct Sample {
    size_t entry;
    double seconds;
    /// The axis of the ranks that an operation waits for; none if it waits for
    /// no other rank.
    std::optional<AxisId> axis;
    bool isOnCompute = false;
    /// The number of times that compute has waited before it, if it is on
    /// compute.
    size_t segment = 0;

    /// Returns whether the rank's compute stream runs it without other ranks.
    bool isAlone() const { return isOnCompute && !axis; }
  };

  std::vector<Sample> measure(const StepRecorder &recorder);
  void measureCompute(const StepRecorder &recorder,
                      std::vector<Sample> &samples);
  void measureStream(const StepRecorder &recorder, StreamId stream,
                     std::vector<Sample> &samples);
  /// Returns, for each segment, the time of the slowest rank over the mean, for
  /// work that a rank does alone. A segment ends at a wait, because the wait is
  /// for data of other ranks, which in turn have waited for the slowest.
  std::vector<double> findDelays(const std::vector<Sample> &samples,
                                 const std::vector<double> &all) const;
  size_t getEntry(const plan::OpT &op, const std::string &operatorKey);

  const StepPlan &plan;
  Job &job;
  std::vector<Entry> entries;
  std::map<std::string, size_t> indices;
};

} // namespace fcdp
