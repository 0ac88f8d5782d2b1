// SPDX-License-Identifier: Apache-2.0
#include "Options.h"

#include "output/WholeFile.h"

#include <CLI/CLI.hpp>
#include <iostream>
#include <stdexcept>

namespace fcdp::run {

namespace {

constexpr const char *kExample = R"(
Example, one machine as two nodes of two ranks:
  fcdp-run step.so --weights=step.pt2 --steps=10 \
      --input ids=tokens.bin:u16 --input labels=tokens.bin:u16+1 \
      --nodes 2 --ranks-per-node 2 --json=log.jsonl

Inputs:
  FILE.npy             an array [M, ...batch shape], one row per micro-batch
                       and rank: row ((step * K + k) * ranks + rank) mod M
  FILE:u16|i32|i64[+k] a raw file of tokens, cut in consecutive windows that
                       start k tokens in
  random:SEED[:LIMIT]  the same random values in every run; integers lie in
                       [0, LIMIT)

Several machines: start it with torchrun --no-python, srun or mpirun, which
then say how many nodes and ranks there are.)";

InputOption splitInput(const std::string &text) {
  size_t equals = text.find('=');
  if (equals == 0 || equals == text.npos || equals + 1 == text.size())
    throw std::runtime_error("--input: expected NAME=FILE, got '" + text + "'");
  return {text.substr(0, equals), text.substr(equals + 1)};
}

void checkWhatIsRun(const Options &options) {
  if (options.probe.empty()) {
    for (const auto &[name, value] : {std::pair("STEP", options.step),
                                      std::pair("--weights", options.weights)})
      if (value.empty())
        throw std::runtime_error(std::string(name) +
                                 " is required; see fcdp-run --help");
    return;
  }
  if (!options.step.empty() || outputFiles(options).size() > 1)
    throw std::runtime_error("--probe-cluster: expected no step, and nothing "
                             "that is written of one");
}

} // namespace

std::vector<std::pair<const char *, std::string>>
outputFiles(const Options &options) {
  std::vector<std::pair<const char *, std::string>> files;
  for (const auto &[option, path] :
       {std::pair("--json", options.json),
        std::pair("--params-out", options.paramsOut),
        std::pair("--profile", options.profile),
        std::pair("--trace", options.trace),
        std::pair("--probe-cluster", options.probe)})
    if (!path.empty())
      files.emplace_back(option, path);
  return files;
}

std::vector<std::string> temporaryFiles(const Options &options) {
  std::vector<std::string> files;
  for (const auto &[option, path] : outputFiles(options))
    files.push_back(temporaryName(path));
  return files;
}

std::optional<Options> parseOptions(int argc, char **argv) {
  Options options;
  std::vector<std::string> inputs;
  CLI::App app("Runs a compiled training step.", "fcdp-run");
  app.footer(kExample);
  app.add_option("STEP", options.step, "The object that fcdp-compile made");
  app.add_option("--weights", options.weights,
                 "Values of parameters and buffers: the exported .pt2, or a "
                 "safetensors file");
  app.add_option("--steps", options.steps, "Optimizer steps; default: 1")
      ->check(CLI::Range(int64_t(1), int64_t(1) << 40));
  app.add_option("--input", inputs, "NAME=FILE, once per input; see below")
      ->type_size(1)
      ->allow_extra_args(false);
  app.add_option("--nodes", options.nodes,
                 "Start this many nodes' ranks on this machine")
      ->check(CLI::Range(1, 1 << 16));
  app.add_option("--ranks-per-node", options.ranksPerNode,
                 "Ranks of each of them")
      ->check(CLI::Range(1, 1 << 16));
  app.add_option("--json", options.json,
                 "Write one JSON object per step to this file");
  app.add_option("--params-out", options.paramsOut,
                 "Write the trained parameters to this safetensors file");
  app.add_option("--profile", options.profile,
                 "Write what operations take, medians over all steps but the "
                 "first, to this file; fcdp-compile, fcdp-sim and fcdp-opt "
                 "take it as --profile");
  app.add_option("--trace", options.trace,
                 "Write the last step of all ranks as trace events, for "
                 "Perfetto or chrome://tracing; fcdp-sim takes it as "
                 "--measured");
  app.add_option("--probe-cluster", options.probe,
                 "Run no step, but measure what the ranks run on, and describe "
                 "it in this file, which other tools take as --cluster");
  app.add_option("--threads", options.threads,
                 "Threads per rank; default: cores / ranks of this machine")
      // The launcher of all ranks adds its own to what the user gave.
      ->take_last()
      ->check(CLI::Range(1, 1 << 16));
  app.add_option("--seed", options.seed,
                 "Random state of rank r starts from seed + r; default: 0");
  app.add_option("--timeout", options.timeout,
                 "Seconds to wait for other ranks; default: 60 to join, 300 "
                 "in a collective")
      ->check(CLI::Range(1.0, 1e6));
  app.add_option("--interface", options.interface,
                 "Network interface for traffic between ranks");
  std::string graphs = "off";
  app.add_option("--cuda-graphs", graphs,
                 "auto: capture what may be captured of a micro-batch in the "
                 "second step, and launch it as CUDA graphs from then on; on "
                 "the CPU that is nothing. off (default): launch operators one "
                 "by one")
      ->check(CLI::IsMember({"auto", "off"}));
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp &) {
    std::cout << app.help();
    return std::nullopt;
  } catch (const CLI::ParseError &error) {
    throw std::runtime_error(std::string(error.what()) +
                             "; see fcdp-run --help");
  }
  for (const std::string &text : inputs)
    options.inputs.push_back(splitInput(text));
  options.cudaGraphs = graphs == "auto";
  checkWhatIsRun(options);
  if (!options.profile.empty() && options.steps < 2)
    throw std::runtime_error(
        "--profile: expected --steps of at least 2, as the "
        "first, which fills memory, is not counted");
  return options;
}

} // namespace fcdp::run
