// SPDX-License-Identifier: Apache-2.0
// What a run prints, and the files that it writes.
#include "TrainingRun.h"

#include "files/ReplacedFile.h"
#include "output/Failure.h"
#include "output/StepText.h"
#include "profile/Trace.h"

#include <algorithm>
#include <cmath>
#include <iostream>
#include <stdexcept>

namespace fcdp::run {

void TrainingRun::print(const std::string &line) {
  if (session.rank() != 0)
    return;
  progress.clear();
  if (!(std::cout << line << std::endl))
    throw std::runtime_error("standard output cannot be written");
}

bool TrainingRun::isPrinted() const {
  return lastStats.step % options.logEvery == 0 ||
         lastStats.step == firstStep + 1 || lastStats.step == options.steps ||
         lastStats.skipped || lastStats.nonfinite || stopped != 0;
}

void TrainingRun::report(const std::vector<int64_t> &epochs) {
  StepFigures figures{lastStats, epochs};
  const StepPlan &plan = session.plan();
  if (int64_t tokens =
          tokensOfStep(plan, plan.stepInputs(lastStats.variant.value_or(0)));
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

void TrainingRun::tellNonfinite(const StepStats &stats) {
  const std::string text = "the loss of the evaluation after step " +
                           std::to_string(stats.step) + " is " +
                           (std::isnan(stats.loss) ? "NaN" : "infinite");
  // Training continues, because its own losses are finite.
  if (options.evaluation.isAlone && options.onNonfinite == OnNonfinite::Stop)
    throw std::runtime_error(text);
  if (session.rank() == 0)
    printWarning(text);
}

void TrainingRun::printSaved() {
  while (auto saved = session.takeSavedCheckpoint()) {
    print(toLine(*saved));
    if (!saved->notRemoved.empty())
      print("warning: an older checkpoint is still there: " +
            saved->notRemoved);
  }
}

void TrainingRun::saveWeights() {
  progress.show("writing " + options.params.path);
  ParameterOutput output = options.params;
  output.elsewhere = foldersElsewhere();
  if (auto problem = session.saveWeights(output))
    kept.push_back("--params-out " + *problem);
}

void TrainingRun::writeOrKeep(const std::string &option,
                              const std::string &path, const std::string &end,
                              const std::string &text) {
  try {
    writeWhole(option, path, text);
  } catch (const UnnamedFileError &error) {
    kept.push_back(error.what());
  } catch (const std::exception &error) {
    kept.push_back(keepElsewhere(error.what(), "the file", end, text));
  }
}

void TrainingRun::keepUnwrittenLines() {
  if (!files.log->unwritten().empty())
    kept.push_back(keepElsewhere(files.log->problem(), "what it lacks",
                                 ".jsonl", files.log->unwritten()));
}

void TrainingRun::saveRecords() {
  if (!options.profile.empty() && session.rank() == 0)
    writeOrKeep("--profile", options.profile, ".profile.json",
                profile ? profile->toJson() : files.profile);
  if (!options.trace.empty())
    saveTrace();
}

void TrainingRun::saveTrace() {
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

} // namespace fcdp::run
