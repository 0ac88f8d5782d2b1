// SPDX-License-Identifier: Apache-2.0
#include "OptionFacts.h"

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

/// Calls `add` with the name and the specification of each file of an input.
template <typename Add>
void forEachFile(const std::string &option, const InputOption &input, Add add) {
  const std::string name = option + " " + input.name;
  const std::vector<std::string> files = splitFiles(input.spec);
  for (size_t i = 0; i < files.size(); ++i)
    add(files.size() == 1 ? name : name + ", file " + std::to_string(i + 1),
        files[i]);
}

void addInput(const std::string &option, const InputOption &input,
              std::vector<Fact> &facts) {
  forEachFile(
      option, input, [&](const std::string &name, const std::string &spec) {
        if (isRandom(spec))
          return facts.push_back({name, spec});
        const InputFile file = fileOf(spec);
        facts.push_back(
            {name, file.tokens.empty() ? "an array" : file.tokens, file.path});
      });
}

void addFiles(const std::string &option, const InputOption &input,
              std::vector<FileFact> &files) {
  forEachFile(option, input,
              [&](const std::string &name, const std::string &spec) {
                if (isRandom(spec))
                  return;
                const std::string path = fileOf(spec).path;
                files.push_back({{name, "", path}, FileSet(path)});
              });
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
      {"--profile-steps", spellOption(options.profileSteps)},
      {"--trace", isGiven(!options.trace.empty())},
      {"--state-path", isGiven(!options.stateFolders.empty())},
      {"--seed", std::to_string(options.seed)},
      {"--deterministic", isGiven(options.deterministic)},
      {"--reductions-by", options.reducesByNccl ? "nccl" : "fcdp"},
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

std::vector<FileFact> filesOf(const Options &options) {
  std::vector<FileFact> files;
  for (const InputOption &input : options.inputs)
    addFiles("--input", input, files);
  for (const InputOption &input : options.evaluation.inputs)
    addFiles("--eval-input", input, files);
  return files;
}

} // namespace fcdp::run
