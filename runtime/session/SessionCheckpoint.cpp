// SPDX-License-Identifier: Apache-2.0
//
// Loads and saves the checkpoints of a session.
#include "session/SessionImpl.h"
#include "state/CheckpointLoad.h"

#include "checkpoint/CheckpointFolders.h"

#include <filesystem>

namespace fcdp {

namespace {

/// Seconds for which other ranks wait while rank 0 looks for a checkpoint.
constexpr double kFindSeconds = 60;

/// Throws if training from `step` on would make a run with two histories.
void checkLatest(const std::string &run, int64_t step) {
  std::vector<int64_t> steps = listCheckpoints(run);
  if (!steps.empty() && steps.back() > step)
    throw std::runtime_error(
        run + ": has a checkpoint of step " + std::to_string(steps.back()) +
        ", and training would go on from step " + std::to_string(step) +
        "; resume from the latest one, or save to another folder");
}

/// Returns the path of a checkpoint relative to its run, whose path may differ
/// between nodes: a name, "." for the run itself, or "" for none.
std::string withoutRun(const std::string &found, const std::string &run) {
  if (found.empty())
    return "";
  return found == run ? "." : std::filesystem::path(found).filename().string();
}

std::string withRun(const std::string &name, const std::string &run) {
  if (name.empty())
    return "";
  return name == "." ? run : (std::filesystem::path(run) / name).string();
}

/// Returns the fact by which ranks compare a checkpoint that they have read.
FileFact checkpointFiles(const std::string &name, const std::string &path,
                         const CheckpointIndex &index) {
  std::vector<std::string> files = {kIndexName};
  for (const CheckpointFile &file : index.files)
    files.push_back(file.name);
  return {{name, "step " + std::to_string(index.step), path},
          FileSet(path, files)};
}

} // namespace

std::optional<std::string>
Session::Impl::findCheckpointTogether(const std::string &path) {
  std::string key = "checkpoint/load/" + std::to_string(++numLoads);
  std::string found;
  // Rank 0 decides: another node may not see the latest one yet.
  agree(problemOf(SessionErrorCode::BadWeights,
                  [&] {
                    if (job->rank() != 0)
                      return;
                    found = fcdp::findCheckpoint(path).value_or("");
                    job->set(key, withoutRun(found, path));
                  }),
        "search for a checkpoint");
  if (job->rank() != 0)
    found = withRun(job->get(key, kFindSeconds), path);
  return found.empty() ? std::nullopt : std::optional(found);
}

void Session::Impl::openRunFolder(const std::string &run) {
  bool isFirst = job->rank() == 0;
  agree(problemOf(SessionErrorCode::FileFailed,
                  [&] {
                    if (!isFirst)
                      return;
                    runLock.emplace(run);
                    checkLatest(run, numSteps);
                    makeRunFolder(run);
                  }),
        "check of the folder for checkpoints");
  auto problem =
      problemOf(SessionErrorCode::FileFailed, [&] { checkRunFolder(run); });
  // All ranks have checked the folder when all agree.
  job->barrier("check of the folder for checkpoints");
  if (isFirst)
    removeRunMark(run);
  agree(problem, "check of the folder for checkpoints");
}

std::optional<LoadedCheckpoint>
Session::loadCheckpoint(const std::string &path, const std::string &name) {
  impl->requireLoading("loading a checkpoint");
  std::optional<LoadedCheckpoint> loaded;
  impl->attemptTogether(SessionErrorCode::BadWeights, [&] {
    auto found = impl->findCheckpointTogether(path);
    if (!found)
      return;
    std::vector<FileFact> files;
    auto problem = Impl::problemOf(SessionErrorCode::BadWeights, [&] {
      CheckpointReader reader(*found);
      impl->rates.takeFrom(reader.index().job, *found + "/index.json.job");
      impl->scaledLoss.takeFrom(reader.index().job, *found + "/index.json.job");
      StateChanges changes = fcdp::loadCheckpoint(
          impl->plan, place(), impl->options.seed, reader, *impl->step);
      const CheckpointIndex &index = reader.index();
      loaded = {*found, index.step, ScaledLoss::removeFrom(index.job).dump(),
                changes, index.hasDigests()};
      files = {checkpointFiles(name, *found, index)};
    });
    impl->agreeOnFiles(
        problem, "load of the checkpoint", [&] { return std::move(files); },
        SessionErrorCode::BadWeights);
    agreeOnChanges(impl->plan, loaded->changes, [&](bool own) {
      return impl->isAnywhere(own, "end of loading the checkpoint");
    });
    impl->numSteps = loaded->step;
  });
  return loaded;
}

void Session::openCheckpoints(const CheckpointOptions &options) {
  impl->requireOpen();
  if (impl->saver)
    throw SessionError(SessionErrorCode::Misuse,
                       "the folder for checkpoints is open");
  if (options.folder.empty() || options.keep == 0)
    throw SessionError(SessionErrorCode::Misuse,
                       "expected a folder for checkpoints, and at least one to "
                       "keep");
  impl->attemptTogether(SessionErrorCode::FileFailed, [&] {
    impl->openRunFolder(options.folder);
    impl->saver = std::make_unique<CheckpointSaver>(CheckpointSaver::Setup{
        impl->plan, *impl->job, *impl->device.backend, *impl->step, options,
        impl->options.stateFolders,
        [this](const std::string &message) { impl->alarm.ring(message); }});
  });
}

void Session::saveCheckpoint(const std::string &job,
                             std::optional<int64_t> best) {
  impl->requireOpen();
  nlohmann::json settings = nlohmann::json::parse(job, nullptr, false);
  if (!impl->saver || !settings.is_object())
    throw SessionError(SessionErrorCode::Misuse,
                       impl->saver ? "expected a JSON object, got " + job
                                   : "expected the folder for checkpoints to "
                                     "be opened before one is saved");
  impl->attemptTogether(SessionErrorCode::FileFailed, [&] {
    impl->agree(impl->nonfinite.noted(),
                "check of the losses before a checkpoint");
    impl->begin();
    impl->saver->save(
        impl->numSteps,
        impl->scaledLoss.addTo(impl->rates.addTo(std::move(settings))), best);
  });
}

void Session::finishCheckpoint() {
  impl->attempt(SessionErrorCode::FileFailed, [&] {
    if (impl->saver)
      impl->saver->wait();
  });
}

std::optional<SavedCheckpoint> Session::takeSavedCheckpoint() {
  impl->requireOpen();
  return impl->saver ? impl->saver->takeSaved() : std::nullopt;
}

uint64_t Session::checkpointCopyBytes() const {
  return impl->saver ? impl->saver->nodeCopyBytes() : 0;
}

int64_t Session::numSteps() const { return impl->numSteps; }

} // namespace fcdp
