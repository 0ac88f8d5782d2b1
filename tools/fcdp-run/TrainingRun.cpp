// SPDX-License-Identifier: Apache-2.0
#include "TrainingRun.h"

#include "checkpoint/CheckpointFolders.h"
#include "files/Json.h"
#include "inputs/SavedPosition.h"
#include "launch/StopSignals.h"
#include "output/StateChangeText.h"
#include "output/StepText.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace fcdp::run {

/// Returns whether both are the same folder, which need not exist.
static bool isSame(const std::filesystem::path &one,
                   const std::filesystem::path &other) {
  std::error_code missing;
  return std::filesystem::equivalent(one, other, missing);
}

void TrainingRun::run() {
  if (!options.profile.empty() && !options.profileSteps)
    profile = std::make_unique<StepProfile>(session.plan(), session.job());
  load();
  setRates();
  if (std::string line = session.describeLostUpdates(); !line.empty())
    print(line);
  openCheckpoints();
  if (session.rank() == 0) {
    files.log->begin(firstStep);
    files.events->begin(firstStep);
  }
  train();
  finish();
  progress.clear();
}

void TrainingRun::load() {
  if (options.isResumed && resume())
    return;
  if (options.weights.empty())
    throw std::runtime_error("--resume: expected a complete checkpoint in " +
                             options.saveDir +
                             ", got none; give --weights to begin without one");
  progress.show("loading " + options.weights.front());
  std::vector<std::string> notes = session.loadWeights(options.weights);
  for (const std::string &note : notes)
    print("weights: " + note);
}

bool TrainingRun::resume() {
  bool isPath = !options.resumeFrom.empty();
  const std::string &from = isPath ? options.resumeFrom : options.saveDir;
  progress.show("loading a checkpoint of " + from);
  auto loaded = session.loadCheckpoint(from, "--resume");
  if (!loaded && isPath)
    throw std::runtime_error("--resume " + from +
                             ": expected a complete checkpoint, got none");
  if (!loaded)
    return false;
  firstStep = loaded->step;
  // Another folder gets a checkpoint even if no step is left to run.
  if (!options.saveDir.empty() &&
      isSame(std::filesystem::path(loaded->path).parent_path(),
             options.saveDir))
    lastSaved = firstStep;
  print("resumed from " + loaded->path);
  if (!loaded->isVerified)
    print("note: this checkpoint has no digests, as an older release saved it; "
          "its contents were not compared with anything");
  for (const std::string &change :
       describeChanges(loaded->changes, session.plan().reducesWithinNodes()))
    print(change);
  auto job = nlohmann::json::parse(loaded->job);
  const std::string origin = loaded->path + "/" + kIndexName + ".job";
  const JsonNode saved(job, origin);
  if (saved.has("skipped_steps"))
    skippedSteps = saved.at("skipped_steps").integer(0, firstStep);
  if (options.evaluation.keepBest && saved.has("best_step") &&
      saved.has("best_evaluation_loss"))
    best = {saved.at("best_step").integer(0, firstStep),
            saved.at("best_evaluation_loss").number()};
  if (options.steps == 0)
    return true;
  for (const std::string &difference :
       goOnAtPosition(saved, firstStep, *files.inputs))
    print(difference);
  checkStepsLeft();
  return true;
}

void TrainingRun::checkStepsLeft() {
  int64_t left = std::max<int64_t>(options.steps - firstStep, 0);
  if (left == 0)
    print("all steps are done");
  int64_t least = options.profileSteps       ? 1 + *options.profileSteps
                  : !options.profile.empty() ? 2
                  : options.trace.empty()    ? 0
                                             : 1;
  if (left < least)
    throw std::runtime_error(
        "--steps: expected at least " + std::to_string(firstStep + least) +
        " for --profile or --trace, as the checkpoint is of step " +
        std::to_string(firstStep) + ", got " + std::to_string(options.steps));
}

void TrainingRun::setRates() {
  if (options.learningRate)
    session.setLearningRate(*options.learningRate);
  if (options.schedule)
    session.setSchedule(*options.schedule);
}

void TrainingRun::openCheckpoints() {
  if (options.saveDir.empty())
    return;
  session.openCheckpoints({options.saveDir, options.keep});
  print(describeSaving(options.saveDir, session.checkpointCopyBytes()));
}

void TrainingRun::readAhead() {
  std::vector<size_t> bytes;
  for (const auto &input : session.plan().greatestInputs())
    bytes.push_back(numElements(input->shape) *
                    byteSize(toDType(input->dtype)));
  int64_t microBatches = session.plan().microBatches;
  if (bytes.empty() || firstStep >= options.steps)
    return;
  if (mustAgreeOnNeeds)
    return readStepsAhead(std::move(bytes));
  files.ahead = std::make_unique<ReadAhead>(
      bytes, firstStep * microBatches, options.steps * microBatches - 1,
      [inputs = files.inputs.get(), microBatches, rank = session.rank()](
          size_t input, int64_t number, std::span<std::byte> out) {
        inputs->read(input, number / microBatches, number % microBatches, rank,
                     out);
      });
}

/// Reads the inputs of whole steps ahead. The shape of a step, and the weight
/// of its losses, depend on the inputs of all its micro-batches.
void TrainingRun::readStepsAhead(std::vector<size_t> bytes) {
  const size_t inputs = bytes.size();
  for (int64_t k = 1; k < int64_t(session.plan().microBatches); ++k)
    bytes.insert(bytes.end(), bytes.begin(), bytes.begin() + inputs);
  files.ahead = std::make_unique<ReadAhead>(
      bytes, firstStep, options.steps - 1,
      [all = files.inputs.get(), inputs, rank = session.rank()](
          size_t input, int64_t step, std::span<std::byte> out) {
        all->read(input % inputs, step, int64_t(input / inputs), rank, out);
      },
      [plan = &session.plan(), shapes = files.shapes.get(),
       rank = session.rank()](const ReadAhead::Buffers &rows) {
        return findNeeds(*plan, *shapes, rank, rows);
      });
}

StepNeeds TrainingRun::agreeOnNeeds() {
  if (!mustAgreeOnNeeds)
    return {};
  // Otherwise the figures of the step before have included it.
  if (!agreed || agreed->step != session.numSteps())
    agreed = {session.numSteps(),
              session.agreeOnNeeds(files.ahead->inspected())};
  return agreed->needs;
}

void TrainingRun::train() {
  readAhead();
  progress.show("filling caches");
  session.begin();
  while (session.numSteps() < options.steps && stopped == 0)
    runStep();
  while (session.numUnread() > 0)
    finishStep();
  bool hasNew = session.numSteps() > firstStep || options.steps == 0;
  if (files.evaluation && hasNew && stopped == 0 &&
      lastEvaluated != session.numSteps())
    evaluate();
}

void TrainingRun::runStep() {
  int64_t index = session.numSteps();
  const StepNeeds needs = agreeOnNeeds();
  const size_t inputs = session.plan().numStepInputs();
  session.run(
      [&](size_t input, int64_t microBatch, std::span<std::byte> out) {
        if (!mustAgreeOnNeeds)
          return files.ahead->take(input, out);
        files.ahead->take(size_t(microBatch) * inputs + input,
                          [&](std::span<const std::byte> row) {
                            files.shapes->cut(input, needs, row, out);
                          });
      },
      needs);
  while (session.numUnread() == session.maxUnread())
    finishStep();
  if (profile && index > firstStep)
    profile->add(*session.recorder());
  if (options.evaluation.every && (index + 1) % *options.evaluation.every == 0)
    evaluate();
  if (options.saveEvery && (index + 1) % *options.saveEvery == 0 &&
      lastSaved != index + 1)
    save();
  printSaved();
}

void TrainingRun::finishStep() {
  RankStats own = session.read();
  own.request = stopSignal();
  const bool hasNext = mustAgreeOnNeeds && session.numSteps() < options.steps;
  if (hasNext)
    own.next = files.ahead->inspected();
  lastStats = session.combine(own);
  if (hasNext)
    agreed = {session.numSteps(), lastStats.next};
  lastStats.skippedSteps = skippedSteps += lastStats.skipped;
  // The signal is the same on all ranks, so that all end after the same step.
  stopped = std::max(stopped, int(lastStats.request));
  if (session.rank() == 0)
    report(files.inputs->epochsOf(lastStats.step - 1));
  for (const EpochEnd &end : files.inputs->epochsThatEndIn(lastStats.step - 1))
    print(describeEnd(end));
  session.requireFinite(lastStats);
}

void TrainingRun::evaluate() {
  while (session.numUnread() > 0)
    finishStep();
  const EvaluationInputs &inputs = *files.evaluation;
  StepStats stats = session.combine(
      session.evaluate(inputs.numBatches(), [&](size_t input, int64_t batch,
                                                std::span<std::byte> out) {
        inputs.read(input, batch, session.rank(), out);
      }));
  EvaluationFigures figures{stats, inputs.numBatches()};
  if (session.rank() == 0) {
    files.log->write(toJson(figures));
    const Scalar loss("evaluation_loss", float(stats.loss));
    files.events->write(stats.step, {&loss, 1});
  }
  print(toText(figures));
  lastEvaluated = stats.step;
  if (!std::isfinite(stats.loss))
    tellNonfinite(stats);
  if (!options.evaluation.keepBest || !std::isfinite(stats.loss) ||
      (best && stats.loss >= best->loss))
    return;
  best = {stats.step, stats.loss};
  save();
}

void TrainingRun::save() {
  while (session.numUnread() > 0)
    finishStep(); // which may end the run
  nlohmann::ordered_json job = {{"seed", options.seed},
                                {"micro_batches", session.plan().microBatches},
                                {"skipped_steps", skippedSteps}};
  job.update(describePosition(*files.inputs, session.numSteps()));
  if (best) {
    job["best_step"] = best->step;
    job["best_evaluation_loss"] = best->loss;
  }
  session.saveCheckpoint(job.dump(),
                         best ? std::optional(best->step) : std::nullopt);
  lastSaved = session.numSteps();
}

void TrainingRun::finish() {
  if (!options.saveDir.empty() && lastSaved != session.numSteps())
    save();
  if (!options.saveDir.empty())
    progress.show("writing a checkpoint to " + options.saveDir);
  session.finishCheckpoint();
  printSaved();
  if (stopped != 0) {
    print("stopped by a signal after step " +
          std::to_string(session.numSteps()) + " of " +
          std::to_string(options.steps));
    keepUnwrittenLines();
    return;
  }
  if (!options.params.path.empty())
    saveWeights();
  saveRecords();
  keepUnwrittenLines();
}

} // namespace fcdp::run
