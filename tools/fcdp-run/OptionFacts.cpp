// SPDX-License-Identifier: Apache-2.0
#include "OptionFacts.h"

#include "checkpoint/FileDigest.h"

#include <sstream>

namespace fcdp::run {
namespace {

const char *isGiven(bool given) { return given ? "given" : "not given"; }

template <typename T>
std::string spellOption(const std::optional<T> &value) {
  std::ostringstream text;
  text.precision(17);
  if (value)
    text << *value;
  else
    text << "not given";
  return text.str();
}

/// The files of an input, whose contents are compared, and the rest of its
/// specification.
void addInput(const std::string &option, const InputOption &input,
              std::vector<Fact> &facts) {
  const std::string name = option + " " + input.name;
  const std::vector<std::string> files = splitFiles(input.spec);
  for (size_t i = 0; i < files.size(); ++i) {
    const std::string of =
        files.size() == 1 ? name : name + ", file " + std::to_string(i + 1);
    if (isRandom(files[i])) {
      facts.push_back({of, files[i]});
      continue;
    }
    const InputFile file = fileOf(files[i]);
    facts.push_back(
        {of,
         (file.tokens.empty() ? "" : file.tokens + ", ") + digestOf(file.path),
         file.path});
  }
}

} // namespace

std::vector<Fact> factsOf(const Options &options) {
  std::vector<Fact> facts = {
      {"--steps", std::to_string(options.steps)},
      {"--lr", spellOption(options.learningRate)},
      {"--schedule", options.schedule ? options.schedule->text() : "not given"},
      {"--data", toText(options.data)},
      {"--eval-every", spellOption(options.evaluation.every)},
      {"--eval-batches", spellOption(options.evaluation.batches)},
      {"--keep-best", isGiven(options.evaluation.keepBest)},
      {"--save-dir", isGiven(!options.saveDir.empty())},
      {"--save-every", spellOption(options.saveEvery)},
      {"--keep", spellOption(options.keep)},
      {"--resume", !options.isResumed           ? "not given"
                   : options.resumeFrom.empty() ? "the latest in --save-dir"
                                                : "a path"},
      {"--params-out", isGiven(!options.params.path.empty())},
      {"--params", options.params.onlyTrained ? "trained" : "all"},
      {"--params-like", isGiven(!options.params.like.empty())},
      {"--profile", isGiven(!options.profile.empty())},
      {"--trace", isGiven(!options.trace.empty())},
      {"--seed", std::to_string(options.seed)},
      {"--cuda-graphs", options.cudaGraphs ? "auto" : "off"},
      {"--on-nonfinite", options.onNonfinite == OnNonfinite::Stop ? "stop"
                         : options.onNonfinite == OnNonfinite::Skip
                             ? "skip"
                             : "continue"},
      {"--loss-scale",
       options.lossScaling ? options.lossScaling->text() : "not given"}};
  for (const auto &[input, value] : options.padding)
    facts.push_back({"--pad " + input, spellOption(std::optional(value))});
  for (const InputOption &input : options.inputs)
    addInput("--input", input, facts);
  for (const InputOption &input : options.evaluation.inputs)
    addInput("--eval-input", input, facts);
  return facts;
}

} // namespace fcdp::run
