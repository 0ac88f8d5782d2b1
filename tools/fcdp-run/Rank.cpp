// SPDX-License-Identifier: Apache-2.0
#include "Rank.h"

#include "inputs/Inputs.h"
#include "output/Failure.h"
#include "output/JsonLog.h"
#include "output/Progress.h"
#include "output/StepText.h"
#include "output/WholeFile.h"
#include "profile/Profile.h"
#include "profile/Trace.h"
#include "session/Session.h"

#include <algorithm>
#include <iostream>
#include <stdexcept>

namespace fcdp::run {

namespace {

/// The files of a rank, opened before it meets the others.
struct Files {
  std::unique_ptr<Inputs> inputs;
  std::unique_ptr<JsonLog> log;
};

void openFiles(const Options &options, const StepPlan &plan,
               const Launch &launch, Files &files) {
  bool isFirst = worldRank(plan.mesh, launch.place) == 0;
  files.log = std::make_unique<JsonLog>(isFirst ? options.json : "");
  if (isFirst)
    for (const auto &[option, path] : outputFiles(options))
      if (path != options.json) // which is made now
        checkDirectory(option, path);
  files.inputs = std::make_unique<Inputs>(plan, options.inputs);
  // Once per node is enough.
  if (launch.place.local == 0)
    files.inputs->checkValues();
}

SessionOptions sessionOptions(const Options &options, const Launch &launch) {
  SessionOptions session;
  session.launch = launch;
  session.timeoutSeconds = options.timeout;
  session.interface = options.interface;
  session.threads = options.threads;
  session.seed = options.seed;
  session.cudaGraphs = options.cudaGraphs;
  session.record = !options.profile.empty() || !options.trace.empty();
  return session;
}

/// Does what the command line requests with an open session. Used by one
/// thread.
class Rank {
public:
  Rank(const Options &options, Session &session, Files &files)
      : options(options), session(session), files(files),
        progress(session.rank() == 0) {}

  void run();

private:
  void train();
  /// Reads and prints the oldest step that is not yet printed.
  void finishStep();
  void saveRecords();
  void saveTrace();

  const Options &options;
  Session &session;
  Files &files;
  Progress progress;
  /// Null without --profile.
  std::unique_ptr<Profile> profile;
  int64_t numPrinted = 0;
  StepStats lastStats;
};

void Rank::run() {
  if (!options.profile.empty())
    profile = std::make_unique<Profile>(session.plan(), session.job());
  progress.show("loading " + options.weights);
  session.loadWeights(options.weights);
  train();
  if (!options.paramsOut.empty()) {
    progress.show("writing " + options.paramsOut);
    session.saveWeights(options.paramsOut);
  }
  saveRecords();
  files.log->finish();
  progress.clear();
}

void Rank::train() {
  progress.show("filling caches");
  session.begin();
  for (int64_t index = 0; index < options.steps; ++index) {
    session.run(
        [&](size_t input, int64_t microBatch, std::span<std::byte> out) {
          files.inputs->read(input, index, microBatch, session.rank(), out);
        });
    while (session.numUnread() == session.maxUnread())
      finishStep();
    if (profile && index > 0)
      profile->add(*session.recorder());
  }
  while (session.numUnread() > 0)
    finishStep();
}

void Rank::finishStep() {
  lastStats = session.combine(session.read());
  lastStats.step = ++numPrinted;
  if (session.rank() != 0)
    return;
  progress.clear();
  if (!(std::cout << toLine(lastStats) << std::endl))
    throw std::runtime_error("standard output cannot be written");
  files.log->write(toJson(lastStats));
}

void Rank::saveRecords() {
  if (profile && session.rank() == 0)
    writeWhole("--profile", options.profile, profile->toJson());
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
    writeWhole("--trace", options.trace, text.finish(lastStats));
}

/// Returns whether each rank of a node finds this error by itself.
bool isBeforeMeeting(SessionErrorCode code) {
  return code == SessionErrorCode::BadLaunch ||
         code == SessionErrorCode::RendezvousFailed;
}

} // namespace

void runRank(const Options &options,
             const std::shared_ptr<const StepObject> &object,
             const Launch &launch) {
  uint32_t rank = worldRank(launch.mesh, launch.place);
  FailureExit failureExit(rank, rank == 0 ? temporaryFiles(options)
                                          : std::vector<std::string>());
  Files files;
  SessionOptions sessionOptions = run::sessionOptions(options, launch);
  sessionOptions.check = [&] {
    openFiles(options, object->plan(), launch, files);
  };
  // The process ends immediately, whatever this rank is doing.
  sessionOptions.onPeerFailure = [&](const std::string &message) {
    failureExit.shared(message);
  };
  // Declared outside the try block, so that after an error its destructor,
  // which could wait, does not run.
  std::unique_ptr<Session> session;
  try {
    session = Session::open(object, sessionOptions);
    session->guard([&] { Rank(options, *session, files).run(); });
    session->close();
  } catch (const SessionError &error) {
    if (isBeforeMeeting(error.code()))
      throw;
    if (error.code() == SessionErrorCode::PeerFailed)
      failureExit.shared(error.what());
    failureExit.own(error.what());
  }
}

} // namespace fcdp::run
