// SPDX-License-Identifier: Apache-2.0
#include "Rank.h"

#include "OptionFacts.h"
#include "RankFiles.h"
#include "TrainingRun.h"
#include "launch/StopSignals.h"
#include "output/Failure.h"

#include <cstdlib>

namespace fcdp::run {

namespace {

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
  session.runsNextToDevice = true;
  session.endsAfterFailure = true;
  session.stateFolders = options.stateFolders;
  session.onNonfinite = options.onNonfinite;
  session.lossScaling = options.lossScaling;
  session.profiledSteps = options.profileSteps.value_or(0);
  session.record = (!options.profile.empty() || !options.trace.empty()) &&
                   !options.profileSteps;
  return session;
}

std::string joined(const std::vector<std::string> &sentences) {
  std::string text;
  for (const std::string &sentence : sentences)
    text += (text.empty() ? "" : "; ") + sentence;
  return text;
}

/// Returns whether each rank of a node finds this error itself.
bool isBeforeMeeting(SessionErrorCode code) {
  return code == SessionErrorCode::BadLaunch ||
         code == SessionErrorCode::RendezvousFailed;
}

[[noreturn]] void leave(FailureExit &failureExit, const SessionError &error) {
  if (error.code() == SessionErrorCode::PeerFailed)
    failureExit.shared(error.what());
  failureExit.own(error.what());
}

} // namespace

int runRank(const Options &options,
            const std::shared_ptr<const StepObject> &object,
            const Launch &launch) {
  RankFiles files;
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
  sessionOptions.onProfile = [&](const std::string &json) {
    files.profile = json;
  };
  sessionOptions.onStranger = printWarning;
  if (worldRank(object->plan().mesh, launch.place) == 0)
    sessionOptions.onDevice = printNote;
  // The process ends immediately, even if this rank is in a call.
  sessionOptions.onPeerFailure = [&](const std::string &message) {
    failureExit.shared(message);
  };
  sessionOptions.onBlockedFailure = [&](const SessionError &error) {
    leave(failureExit, error);
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
      TrainingRun run(options, *session, files);
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
    // All ranks have this error, and one of each node prints it.
    if (error.code() == SessionErrorCode::NotFinite && launch.place.local != 0)
      failureExit.silent();
    leave(failureExit, error);
  }
}

} // namespace fcdp::run
