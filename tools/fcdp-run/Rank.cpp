// SPDX-License-Identifier: Apache-2.0
#include "Rank.h"

#include "OptionFacts.h"
#include "checkpoint/ReplacedFile.h"
#include "inputs/Needs.h"
#include "inputs/SavedPosition.h"
#include "launch/StopSignals.h"
#include "output/EventFile.h"
#include "output/Failure.h"
#include "output/JsonLog.h"
#include "output/OutputFiles.h"
#include "output/Progress.h"
#include "output/StepText.h"
#include "profile/Profile.h"
#include "profile/Trace.h"
#include "session/Session.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace fcdp::run {

namespace {

/// The files of a rank, opened before it meets the others.
struct Files {
  std::unique_ptr<Shapes> shapes;
  /// Null if nothing is trained.
  std::unique_ptr<Inputs> inputs;
  /// Null if nothing is evaluated.
  std::unique_ptr<EvaluationInputs> evaluation;
  /// Null without inputs, and before training.
  std::unique_ptr<ReadAhead> ahead;
  /// Null on ranks but the first.
  std::unique_ptr<OutputFiles> outputs;
  std::unique_ptr<JsonLog> log;
  std::unique_ptr<EventFile> events;
};

/// Rows are counted in 64 bits.
void checkPositions(const Options &options, const StepPlan &plan) {
  constexpr int64_t most = int64_t(1) << 60;
  __int128 rows =
      __int128(options.steps) * plan.microBatches * plan.mesh.size();
  if (rows > most)
    throw std::runtime_error(
        "--steps: expected at most " + std::to_string(most) +
        " rows in all steps, got " + std::to_string(options.steps) +
        " steps of " + std::to_string(plan.microBatches) + " micro-batches");
}

void openFiles(const Options &options, const StepPlan &plan,
               const Launch &launch, Files &files) {
  bool isFirst = worldRank(plan.mesh, launch.place) == 0;
  files.log = std::make_unique<JsonLog>(isFirst ? options.json : "");
  files.events =
      std::make_unique<EventFile>(isFirst ? options.tensorboard : "");
  if (isFirst) {
    files.outputs = std::make_unique<OutputFiles>(outputFiles(options));
    files.outputs->open();
  }
  if (isFirst && !options.params.path.empty())
    checkSpace("--params-out", options.params.path,
               checkOutput(plan, options.params));
  if (options.steps > 0 && !plan.trains())
    throw std::runtime_error(
        "--steps: expected 0 for a step that was compiled for evaluations "
        "alone, got " +
        std::to_string(options.steps));
  checkPositions(options, plan);
  files.shapes = std::make_unique<Shapes>(plan, options.padding);
  if (options.steps > 0)
    files.inputs =
        std::make_unique<Inputs>(plan, options.inputs, options.data,
                                 /*ofEvaluation=*/false, files.shapes.get());
  else
    checkNames(plan, options.inputs);
  files.evaluation = EvaluationInputs::open(plan, options.evaluation,
                                            options.inputs, options.data);
}

/// Looks at all values of the inputs, which may take minutes.
void scanFiles(const Launch &launch, const Files &files) {
  // Once per node is enough.
  if (launch.place.local != 0)
    return;
  if (files.inputs)
    files.inputs->checkValues();
  if (files.evaluation)
    files.evaluation->checkValues();
}

SessionOptions sessionOptions(const Options &options, const Launch &launch) {
  SessionOptions session;
  session.launch = launch;
  session.timeoutSeconds = options.timeout;
  session.interface = options.interface;
  session.threads = options.threads;
  session.seed = options.seed;
  session.deterministic = options.deterministic;
  session.reducesByNccl = options.reducesByNccl;
  session.cudaGraphs = options.cudaGraphs;
  session.onNonfinite = options.onNonfinite;
  session.lossScaling = options.lossScaling;
  session.record = !options.profile.empty() || !options.trace.empty();
  return session;
}

/// Whether both are the same folder, which need not exist.
bool isSame(const std::filesystem::path &one,
            const std::filesystem::path &other) {
  std::error_code missing;
  return std::filesystem::equivalent(one, other, missing);
}

/// Does what the command line requests with an open session. Used by one
/// thread.
class Rank {
public:
  Rank(const Options &options, Session &session, Files &files)
      : options(options), session(session), files(files),
        progress(session.rank() == 0),
        mustAgreeOnNeeds(mustAgree(session.plan())), timeLeft(options.steps) {}

  void run();
  /// The signal that ended the run early, or 0.
  int stoppedBy() const { return stopped; }
  /// What has ended well is elsewhere than it should be: a sentence each.
  const std::vector<std::string> &problems() const { return kept; }

private:
  void load();
  /// Loads a checkpoint; returns whether there was one.
  /// Says what a checkpoint and the step do not have in common.
  void printChanges(const StateChanges &changes);
  bool resume();
  void checkStepsLeft();
  void setRates();
  void openCheckpoints();
  void train();
  void readAhead();
  void readStepsAhead(std::vector<size_t> bytes);
  /// Collective. Returns what the step that is run next needs.
  StepNeeds agreeOnNeeds();
  void runStep();
  /// Reads and prints the oldest step that is not yet printed.
  void finishStep();
  /// Prints and logs the last step that was read, on rank 0.
  void report(const std::vector<int64_t> &epochs);
  /// Whether a line is printed for that step.
  bool isPrinted() const;
  /// Evaluates the model after the last step.
  void evaluate();
  /// Ends the run if it only evaluates, and warns otherwise.
  void tellNonfinite(const StepStats &stats);
  void save();
  void printSaved();
  void print(const std::string &line);
  void finish();
  void saveWeights();
  void saveRecords();
  void saveTrace();
  /// Writes a file of the command line, or keeps its text elsewhere.
  void writeOrKeep(const std::string &option, const std::string &path,
                   const std::string &end, const std::string &text);
  void keepUnwrittenLines();

  const Options &options;
  Session &session;
  Files &files;
  Progress progress;
  /// What a step needs, known ahead of it.
  struct Agreed {
    int64_t step;
    StepNeeds needs;
  };
  std::optional<Agreed> agreed;
  const bool mustAgreeOnNeeds;
  /// Null without --profile.
  std::unique_ptr<Profile> profile;
  int64_t firstStep = 0;
  /// Steps of the job that made no update.
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
  /// The lines about bytes that were printed last.
  std::string printedBytes;
};

void Rank::run() {
  if (!options.profile.empty())
    profile = std::make_unique<Profile>(session.plan(), session.job());
  load();
  setRates();
  openCheckpoints();
  if (session.rank() == 0) {
    files.log->begin(firstStep);
    files.events->begin(firstStep);
  }
  train();
  finish();
  progress.clear();
}

void Rank::load() {
  if (options.isResumed && resume())
    return;
  progress.show("loading " + options.weights.front());
  std::vector<std::string> notes = session.loadWeights(options.weights);
  for (const std::string &note : notes)
    print("weights: " + note);
}

void Rank::printChanges(const StateChanges &changes) {
  if (size_t started = changes.masters.started)
    print("the checkpoint has no masters of " + std::to_string(started) +
          " parameters: they start from the parameters' values");
  if (size_t dropped = changes.masters.dropped)
    print("the step has no masters of " + std::to_string(dropped) +
          " parameters: it goes on from their rounding");
  if (size_t started = changes.residuals.started)
    print("the checkpoint does not have what reductions in 8 or 4 bits have "
          "left out of " +
          std::to_string(started) + " parameters: it starts as zeros");
  if (size_t dropped = changes.residuals.dropped)
    print("the step has no reductions in 8 or 4 bits of " +
          std::to_string(dropped) +
          " parameters: what they have left out in the checkpoint is lost");
  if (changes.outer.started)
    print(
        "the checkpoint has no states of outer steps: all nodes start from its "
        "parameters, and momentum as zeros");
  if (changes.outer.dropped)
    print("the step has no outer steps, or none with momentum: their states in "
          "the checkpoint are lost");
  if (changes.outer.areJoined)
    print("the checkpoint is of other nodes, which trained by themselves: the "
          "job "
          "goes on from the outer parameters, which these had in common, and "
          "with "
          "the optimizer's states of " +
          std::string(session.plan().outer ? "one of them for each node"
                                           : "the first"));
  if (changes.residuals.areMoved)
    print("the checkpoint is of other nodes or another layout: what reductions "
          "in 8 or 4 bits have left out goes on, in sum, on the nodes that "
          "there are now");
}

bool Rank::resume() {
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
  printChanges(loaded->changes);
  auto job = nlohmann::json::parse(loaded->job);
  if (job.contains("skipped_steps") &&
      job["skipped_steps"].is_number_unsigned())
    skippedSteps = job["skipped_steps"].get<int64_t>();
  if (options.evaluation.keepBest && job.contains("best_step") &&
      job["best_step"].is_number_unsigned() &&
      job.contains("best_evaluation_loss") &&
      job["best_evaluation_loss"].is_number())
    best = {job["best_step"].get<int64_t>(),
            job["best_evaluation_loss"].get<double>()};
  if (options.steps == 0)
    return true;
  for (const std::string &difference :
       goOnAtPosition(job, firstStep, *files.inputs))
    print(difference);
  checkStepsLeft();
  return true;
}

void Rank::checkStepsLeft() {
  int64_t left = std::max<int64_t>(options.steps - firstStep, 0);
  if (left == 0)
    print("all steps are done");
  int64_t least = profile ? 2 : options.trace.empty() ? 0 : 1;
  if (left < least)
    throw std::runtime_error(
        "--steps: expected at least " + std::to_string(firstStep + least) +
        " for --profile or --trace, as the checkpoint is of step " +
        std::to_string(firstStep) + ", got " + std::to_string(options.steps));
}

void Rank::setRates() {
  if (options.learningRate)
    session.setLearningRate(*options.learningRate);
  if (options.schedule)
    session.setSchedule(*options.schedule);
}

void Rank::openCheckpoints() {
  if (options.saveDir.empty())
    return;
  session.openCheckpoints({options.saveDir, options.keep});
  print(describeSaving(options.saveDir, session.checkpointCopyBytes()));
}

void Rank::readAhead() {
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

/// The shape of a step, and the weight of its losses, depend on the inputs of
/// all its micro-batches.
void Rank::readStepsAhead(std::vector<size_t> bytes) {
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

StepNeeds Rank::agreeOnNeeds() {
  if (!mustAgreeOnNeeds)
    return {};
  // Else the figures of the step before have brought it.
  if (!agreed || agreed->step != session.numSteps())
    agreed = {session.numSteps(),
              session.agreeOnNeeds(files.ahead->inspected())};
  return agreed->needs;
}

void Rank::train() {
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

void Rank::runStep() {
  int64_t index = session.numSteps();
  const StepNeeds needs = agreeOnNeeds();
  const size_t inputs = session.plan().numStepInputs();
  session.run(
      [&](size_t input, int64_t microBatch, std::span<std::byte> out) {
        if (!mustAgreeOnNeeds)
          return files.ahead->take(input, out);
        files.ahead->take(size_t(microBatch) * inputs + input,
                          [&](std::span<const std::byte> row) {
                            files.shapes->cut(input, needs.variant, row, out);
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

void Rank::finishStep() {
  RankStats own = session.read();
  own.request = stopSignal();
  const bool hasNext = mustAgreeOnNeeds && session.numSteps() < options.steps;
  if (hasNext) {
    const StepNeeds next = files.ahead->inspected();
    own.nextVariant = next.variant;
    own.nextWeight = next.weight;
  }
  lastStats = session.combine(own);
  if (hasNext)
    agreed = {session.numSteps(),
              {uint32_t(lastStats.nextVariant), lastStats.nextWeight}};
  lastStats.skippedSteps = skippedSteps += lastStats.skipped;
  // The same on all ranks, so that all end after the same step.
  stopped = std::max(stopped, int(lastStats.request));
  if (session.rank() == 0)
    report(files.inputs->epochsOf(lastStats.step - 1));
  for (const EpochEnd &end : files.inputs->epochsThatEndIn(lastStats.step - 1))
    print(describeEnd(end));
  session.requireFinite(lastStats);
}

bool Rank::isPrinted() const {
  return lastStats.step % options.logEvery == 0 ||
         lastStats.step == firstStep + 1 || lastStats.step == options.steps ||
         lastStats.skipped || lastStats.nonfinite || stopped != 0;
}

void Rank::report(const std::vector<int64_t> &epochs) {
  StepFigures figures{lastStats, epochs};
  if (int64_t tokens =
          tokensOfStep(session.plan(), lastStats.variant.value_or(0));
      tokens != 0 && lastStats.seconds > 0)
    figures.tokensPerSecond = double(tokens) / lastStats.seconds;
  figures.secondsLeft = timeLeft.after(lastStats.step, lastStats.seconds);
  files.log->write(toJson(figures));
  if (!isPrinted())
    return;
  files.events->write(lastStats.step, toScalars(figures));
  print(toText(figures));
  std::string bytes = describeBytes(lastStats);
  if (bytes != printedBytes)
    print(bytes);
  printedBytes = bytes;
}

void Rank::evaluate() {
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

void Rank::tellNonfinite(const StepStats &stats) {
  const std::string text = "the loss of the evaluation after step " +
                           std::to_string(stats.step) + " is " +
                           (std::isnan(stats.loss) ? "NaN" : "infinite");
  // Training goes on, as its own losses are finite.
  if (options.evaluation.isAlone && options.onNonfinite == OnNonfinite::Stop)
    throw std::runtime_error(text);
  if (session.rank() == 0)
    printWarning(text);
}

void Rank::print(const std::string &line) {
  if (session.rank() != 0)
    return;
  progress.clear();
  if (!(std::cout << line << std::endl))
    throw std::runtime_error("standard output cannot be written");
}

void Rank::save() {
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

void Rank::printSaved() {
  while (auto saved = session.takeSavedCheckpoint()) {
    print(toLine(*saved));
    if (!saved->notRemoved.empty())
      print("warning: an older checkpoint is still there: " +
            saved->notRemoved);
  }
}

void Rank::finish() {
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

void Rank::saveWeights() {
  progress.show("writing " + options.params.path);
  ParameterOutput output = options.params;
  output.elsewhere = foldersElsewhere();
  if (auto problem = session.saveWeights(output))
    kept.push_back("--params-out " + *problem);
}

void Rank::writeOrKeep(const std::string &option, const std::string &path,
                       const std::string &end, const std::string &text) {
  try {
    writeWhole(option, path, text);
  } catch (const UnnamedFileError &error) {
    kept.push_back(error.what());
  } catch (const std::exception &error) {
    kept.push_back(keepElsewhere(error.what(), "the file", end, text));
  }
}

void Rank::keepUnwrittenLines() {
  if (!files.log->unwritten().empty())
    kept.push_back(keepElsewhere(files.log->problem(), "what it lacks",
                                 ".jsonl", files.log->unwritten()));
}

void Rank::saveRecords() {
  if (profile && session.rank() == 0)
    writeOrKeep("--profile", options.profile, ".profile.json",
                profile->toJson());
  if (!options.trace.empty())
    saveTrace();
}

void Rank::saveTrace() {
  const StepRecorder &recorder = *session.recorder();
  const std::vector<double> &seconds = lastStats.secondsOfRanks;
  auto slowest = std::max_element(seconds.begin(), seconds.end());
  size_t spans = 0;
  for (size_t stream = 0; stream < kNumStreams; ++stream)
    spans += recorder.getSpans(StreamId(stream)).size();
  TraceText text(session.plan(), recorder);
  collectTraces(session.job(), recorder,
                chooseTraced(seconds.size(), slowest - seconds.begin(), spans),
                [&](const RankTrace &trace) { text.add(trace); });
  if (session.rank() == 0)
    writeOrKeep("--trace", options.trace, ".trace.json",
                text.finish(lastStats));
}

std::string joined(const std::vector<std::string> &sentences) {
  std::string text;
  for (const std::string &sentence : sentences)
    text += (text.empty() ? "" : "; ") + sentence;
  return text;
}

/// Returns whether each rank of a node finds this error by itself.
bool isBeforeMeeting(SessionErrorCode code) {
  return code == SessionErrorCode::BadLaunch ||
         code == SessionErrorCode::RendezvousFailed;
}

} // namespace

int runRank(const Options &options,
            const std::shared_ptr<const StepObject> &object,
            const Launch &launch) {
  Files files;
  FailureExit failureExit(launch.isOwnStore, [&] {
    if (files.outputs)
      files.outputs->cleanUp();
  });
  SessionOptions sessionOptions = run::sessionOptions(options, launch);
  sessionOptions.check = [&] {
    openFiles(options, object->plan(), launch, files);
  };
  sessionOptions.scan = [&] { scanFiles(launch, files); };
  sessionOptions.facts = [&] { return factsOf(options); };
  sessionOptions.files = [&] { return filesOf(options); };
  sessionOptions.onStranger = printWarning;
  if (worldRank(object->plan().mesh, launch.place) == 0)
    sessionOptions.onDevice = printNote;
  // The process ends immediately, whatever this rank is doing.
  sessionOptions.onPeerFailure = [&](const std::string &message) {
    failureExit.shared(message);
  };
  // Declared outside the try block, so that after an error its destructor,
  // which could wait, does not run.
  std::unique_ptr<Session> session;
  // Without checkpoints a signal ends the process at once.
  if (!options.saveDir.empty())
    noteStopSignals();
  try {
    int stopped = 0;
    std::vector<std::string> problems;
    session = Session::open(object, sessionOptions);
    session->guard([&] {
      Rank run(options, *session, files);
      run.run();
      stopped = run.stoppedBy();
      problems = run.problems();
    });
    session->close();
    if (!problems.empty())
      printError(joined(problems));
    if (!problems.empty() && stopped == 0)
      return EXIT_FAILURE;
    return stopped == 0 ? EXIT_SUCCESS : exitCodeOf(stopped);
  } catch (const SessionError &error) {
    if (isBeforeMeeting(error.code()))
      throw;
    if (error.code() == SessionErrorCode::PeerFailed)
      failureExit.shared(error.what());
    // All ranks have this error, and one of each node prints it.
    if (error.code() == SessionErrorCode::NotFinite && launch.place.local != 0)
      failureExit.silent();
    failureExit.own(error.what());
  }
}

} // namespace fcdp::run
