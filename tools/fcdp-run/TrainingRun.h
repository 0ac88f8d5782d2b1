// SPDX-License-Identifier: Apache-2.0
//
// The steps, evaluations and outputs of a rank's run.
#pragma once

#include "Options.h"
#include "RankFiles.h"
#include "inputs/Needs.h"
#include "output/Progress.h"
#include "output/StepFigures.h"
#include "session/Session.h"
#include "session/StepProfile.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace fcdp::run {

/// Runs the steps of the command line with an open session. Used by one thread.
class TrainingRun {
public:
  TrainingRun(const Options &options, Session &session, RankFiles &files)
      : options(options), session(session), files(files),
        progress(session.rank() == 0),
        mustAgreeOnNeeds(mustAgree(session.plan())), timeLeft(options.steps) {}

  void run();
  /// Returns the signal that ended the run early, or 0.
  int stoppedBy() const { return stopped; }
  /// Returns a sentence for each output that is complete, but at another path
  /// than requested.
  const std::vector<std::string> &problems() const { return kept; }

private:
  void load();
  /// Loads a checkpoint; returns whether there was one.
  bool resume();
  void checkStepsLeft();
  void setRates();
  void openCheckpoints();
  void train();
  void readAhead();
  void readStepsAhead(std::vector<size_t> bytes);
  /// Returns the requirements of the next step's inputs. Collective.
  StepNeeds agreeOnNeeds();
  void runStep();
  /// Reads and prints the oldest step that is not yet printed.
  void finishStep();
  /// Prints and logs the last step that was read, on rank 0.
  void report(const std::vector<int64_t> &epochs);
  /// Returns whether a line is printed for that step.
  bool isPrinted() const;
  /// Evaluates the model after the last step.
  void evaluate();
  /// Reports a nonfinite loss or gradient. Ends the run if it only evaluates,
  /// and warns otherwise.
  void tellNonfinite(const StepStats &stats);
  void save();
  void printSaved();
  void print(const std::string &line);
  void finish();
  void saveWeights();
  void saveRecords();
  void saveTrace();
  /// Writes a file of the command line, or keeps its text in another folder.
  void writeOrKeep(const std::string &option, const std::string &path,
                   const std::string &end, const std::string &text);
  void keepUnwrittenLines();

  const Options &options;
  Session &session;
  RankFiles &files;
  Progress progress;
  /// The requirements of a step's inputs, on which ranks agreed before the
  /// step.
  struct Agreed {
    int64_t step;
    StepNeeds needs;
  };
  std::optional<Agreed> agreed;
  const bool mustAgreeOnNeeds;
  /// Null unless all steps are profiled.
  std::unique_ptr<StepProfile> profile;
  int64_t firstStep = 0;
  /// The number of the job's steps that made no update.
  int64_t skippedSteps = 0;
  /// The step of the last checkpoint in --save-dir.
  std::optional<int64_t> lastSaved, lastEvaluated;
  /// The least loss of an evaluation, and the checkpoint of that step.
  struct Best {
    int64_t step;
    double loss;
  };
  std::optional<Best> best;
  int stopped = 0;
  std::vector<std::string> kept;
  StepStats lastStats;
  TimeLeft timeLeft;
  /// The lines about bytes that were printed last, which are not repeated.
  std::string printedBytes;
};

} // namespace fcdp::run
