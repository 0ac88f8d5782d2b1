// SPDX-License-Identifier: Apache-2.0
#include "Options.h"

#include "CommandLine.h"
#include "weights/AdapterFiles.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <map>
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
                       and rank: row ((step * K + k) * ranks + rank) mod M,
                       unless --data=shuffle=SEED is given
  FILE:u16|i32|i64[+k] a raw file of tokens, split into consecutive windows,
                       the first of which begins at token k
  FILE,FILE            several files, each with its type
  random:SEED[:LIMIT]  the same random values in every run; integers lie in
                       [0, LIMIT)

Schedules:
  constant[,warmup=W]          1 after the warm-up
  linear,steps=T[,warmup=W]    falls from the warm-up's end to step T on a line,
  cosine,steps=T[,warmup=W]    or on half a cosine
  wsd,steps=T,decay=D[,warmup=W][,shape=linear|cosine|sqrt]
                               1, then falls in the last D of the T steps
  T counts all steps of the job, from its first one: warm-up, what follows, and
  those before a checkpoint. The factor grows from 0, or start=F, to 1 in the
  first W steps. It falls to 0, or min=F, and stays there after T steps.

A step's lines have its loss and learning rate, the loss scale (with
--loss-scale=on of fcdp-compile), the sum of the losses' weights (with
--loss-weight of fcdp-compile), the norm of the gradients before they are
clipped (with --clip-norm), its duration, tokens per second of all ranks, the
share of the duration for which computation waited for communication and copies
(on the CPU), and the time that is left.

Several machines: start it with torchrun --no-python, srun or mpirun, which
set the numbers of nodes and ranks. FCDP_JOB_KEY, of at least 16 characters and
the same on all ranks, is the secret of the job: processes without it are
refused.)";

InputOption splitInput(const std::string &option, const std::string &text) {
  size_t equals = text.find('=');
  if (equals == 0 || equals == text.npos || equals + 1 == text.size())
    throw std::runtime_error(option + ": expected NAME=FILE, got '" + text +
                             "'");
  return {text.substr(0, equals), text.substr(equals + 1)};
}

void checkWhatIsRun(const Options &options, const std::string &target) {
  if (options.reportsEnvironment)
    return;
  if (options.probe.empty() && !target.empty())
    throw std::runtime_error("--target: expected --probe-cluster, too; a step "
                             "was compiled for its target");
  if (options.probe.empty()) {
    // A checkpoint contains everything that --weights would give.
    bool needsWeights = !options.isResumed;
    for (const auto &[name, isMissing] :
         {std::pair("STEP", options.step.empty()),
          std::pair("--weights", needsWeights && options.weights.empty())})
      if (isMissing)
        throw std::runtime_error(std::string(name) +
                                 " is required; see fcdp-run --help");
    return;
  }
  if (!options.step.empty() || outputFiles(options).size() > 1 ||
      !options.tensorboard.empty() || !options.saveDir.empty() ||
      options.isResumed)
    throw std::runtime_error("--probe-cluster: expected neither a step nor an "
                             "output file of a step");
}

void checkRate(const Options &options) {
  double rate = options.learningRate.value_or(0);
  if (!std::isfinite(rate) || rate < 0)
    throw std::runtime_error(
        "--lr: expected a finite rate of at least 0, got " +
        std::to_string(rate));
}

void checkCheckpoints(const Options &options) {
  if (!options.saveDir.empty())
    return;
  for (const auto &[name, isGiven] :
       {std::pair("--save-every", options.saveEvery.has_value()),
        std::pair("--keep-best", options.evaluation.keepBest),
        std::pair("--keep", options.keep.has_value()),
        std::pair("--resume without a path",
                  options.isResumed && options.resumeFrom.empty())})
    if (isGiven)
      throw std::runtime_error(std::string(name) +
                               ": expected --save-dir, too");
}

/// Checks that no file is both read and written, or written twice.
void checkFiles(const Options &options) {
  std::vector<NamedFile> read = {
      {"STEP", options.step},
      {"--params-like", pathOfWeights(options.params.like)},
      {"--resume", options.resumeFrom},
      {"--save-dir", options.saveDir, true}};
  for (const std::string &path : options.weights)
    read.push_back({"--weights", pathOfWeights(path)});
  for (const auto &[option, inputs] :
       {std::pair("--input", &options.inputs),
        std::pair("--eval-input", &options.evaluation.inputs)})
    for (const InputOption &input : *inputs)
      for (const std::string &file : splitFiles(input.spec))
        if (!isRandom(file))
          read.push_back(
              {std::string(option) + " " + input.name, pathOf(file)});
  std::erase_if(read, [](const NamedFile &file) { return file.path.empty(); });
  std::vector<NamedFile> written = outputFiles(options);
  if (!options.tensorboard.empty())
    written.push_back({"--tensorboard", options.tensorboard, true});
  checkDistinct(written, read);
}

/// Checks that options that need steps get them.
void checkSteps(const Options &options) {
  if (!options.profile.empty() && options.steps < 2)
    throw std::runtime_error(
        "--profile: expected --steps of at least 2, as the "
        "first, which fills memory, is not counted");
  if (options.profileSteps) {
    if (options.profile.empty() || !options.trace.empty())
      throw std::runtime_error("--profile-steps: expected --profile, and no "
                               "--trace, which is of the last step");
    if (options.steps <= *options.profileSteps)
      throw std::runtime_error(
          "--profile-steps: expected fewer than --steps, " +
          std::to_string(options.steps) +
          ", as the first step is not counted, "
          "got " +
          std::to_string(*options.profileSteps));
  }
  if (options.steps > 0)
    return;
  for (const auto &[name, isGiven] :
       {std::pair("--trace", !options.trace.empty()),
        std::pair("--save-dir", !options.saveDir.empty()),
        std::pair("--eval-every", options.evaluation.every.has_value())})
    if (isGiven)
      throw std::runtime_error(std::string(name) +
                               ": expected --steps of at least 1, got 0");
}

} // namespace

std::vector<NamedFile> outputFiles(const Options &options) {
  std::vector<NamedFile> files;
  for (const auto &[option, path] :
       {std::pair("--json", options.json),
        std::pair("--params-out", options.params.path),
        std::pair("--profile", options.profile),
        std::pair("--trace", options.trace),
        std::pair("--probe-cluster", options.probe)})
    if (!path.empty())
      files.push_back({option, path, std::string(option) == "--params-out"});
  return files;
}

std::optional<Options> parseOptions(int argc, char **argv) {
  Options options;
  std::vector<std::string> inputs, evaluationInputs, padding;
  std::string data;
  CLI::App app("Runs a compiled training step.", "fcdp-run");
  app.footer(kExample);
  app.add_option("STEP", options.step, "The object that fcdp-compile made");
  app.add_option("--weights", options.weights,
                 "Read the values of parameters and buffers from this file or "
                 "folder: the exported .pt2, a safetensors file, or a folder "
                 "of such files as Hugging Face's models are stored. May be "
                 "given several times, in any order: a tensor comes from the "
                 "file with the most specific name of it, and from a .pt2 only "
                 "if no other file has it. NAME=PATH is for the adapter NAME "
                 "of several, or for the module NAME of a step with several "
                 "models")
      ->type_size(1)
      ->allow_extra_args(false);
  app.add_option("--steps", options.steps,
                 "Train until this many optimizer steps are done, those before "
                 "a checkpoint that the run resumes from included; 0 evaluates "
                 "the weights or the checkpoint, and trains nothing; default: "
                 "1")
      ->check(CLI::Range(int64_t(0), int64_t(1) << 40));
  app.add_option("--lr", options.learningRate,
                 "Use this learning rate instead of the one that was compiled "
                 "in; default: that of the checkpoint that the run resumes "
                 "from, if it has one");
  std::string schedule;
  auto *scheduleOption = app.add_option(
      "--schedule", schedule,
      "Multiply the learning rate of each step with a factor; see below. "
      "Default: that of the checkpoint that the run resumes from, if it has "
      "one, or constant");
  app.add_option(
         "--input", inputs,
         "Read an input from a file: NAME=FILE, once per input; see below")
      ->type_size(1)
      ->allow_extra_args(false);
  app.add_option("--pad", padding,
                 "In a step of several shapes, elements of this value at the "
                 "end of a row are padding: NAME=VALUE, once per input. A step "
                 "runs in the smallest shape outside which the rows of all "
                 "ranks have nothing but padding; default: 0")
      ->type_size(1)
      ->allow_extra_args(false);
  app.add_option("--data", data,
                 "Choose the order in which rows are read, as KEY=VALUE,...: "
                 "shuffle=SEED reads all rows once an epoch, each time in "
                 "another random order; weights=W:W... mixes several files in "
                 "these proportions; validation=FRACTION holds out rows at "
                 "the end of each file, and split=validation reads only "
                 "those; default: all rows in the order of the files");
  app.add_option(
         "--eval-every", options.evaluation.every,
         "Evaluate the model after every so many steps, and at the end; "
         "the step must be compiled with --eval. Default: at the end "
         "only, if there are rows to evaluate it on")
      ->check(CLI::Range(int64_t(1), int64_t(1) << 40));
  app.add_option("--eval-input", evaluationInputs,
                 "Read an input of the evaluation from a file: NAME=FILE, once "
                 "per input, as --input has it; default: the rows of the files "
                 "of --input that --data=validation=FRACTION holds out")
      ->type_size(1)
      ->allow_extra_args(false);
  app.add_option("--eval-batches", options.evaluation.batches,
                 "Evaluate this many batches on each rank; default: as many as "
                 "give each rank other rows, or 1 if all inputs are random")
      ->check(CLI::Range(int64_t(1), int64_t(1) << 40));
  addRankOptions(app, options.nodes, options.ranksPerNode);
  app.add_option("--json", options.json,
                 "Append one JSON object per step to this file, which can be "
                 "read at any time. A run that resumes keeps the lines of the "
                 "steps before, any other run empties the file first");
  app.add_option("--tensorboard", options.tensorboard,
                 "Write the figures of the steps that are printed to event "
                 "files in this folder, for TensorBoard; they have the names "
                 "that --json gives them");
  app.add_option("--log-every", options.logEvery,
                 "Print one of so many steps. The first, the last and skipped "
                 "ones are always printed; default: 1")
      ->check(CLI::Range(int64_t(1), int64_t(1) << 40));
  app.add_option(
      "--save-dir", options.saveDir,
      "Save checkpoints in this folder, which all nodes share: after "
      "the last step, and when SIGTERM or SIGINT ends the run, which "
      "then has the exit code 143 or 130");
  app.add_option("--save-every", options.saveEvery,
                 "Save a checkpoint after every so many steps, too; default: "
                 "never")
      ->check(CLI::Range(int64_t(1), int64_t(1) << 40));
  app.add_option("--keep", options.keep,
                 "Keep this many checkpoints, the latest ones; default: all")
      ->check(CLI::Range(1, 1 << 30));
  app.add_flag(
      "--keep-best", options.evaluation.keepBest,
      "Save a checkpoint after each evaluation whose loss is the least "
      "so far, and keep it beside those of --keep until there is a "
      "better one");
  const std::string latest = "the latest";
  std::string resume;
  app.add_flag(
      "--resume{" + latest + "}", resume,
      "--resume=PATH goes on from a checkpoint, or from the latest one "
      "in a folder of checkpoints. --resume goes on from the latest one in "
      "--save-dir, and begins with --weights if there is none. Neither "
      "needs --weights if there is a checkpoint. The mesh, strategy, "
      "micro-batches "
      "and input files may differ from those that saved");
  app.add_option("--params-out", options.params.path,
                 "Write parameters and persistent buffers at the end, to this "
                 "safetensors file, or to a folder (one that exists, or a path "
                 "that ends with /): files of at most 5 GB and their index, as "
                 "Hugging Face's models are stored");
  std::string which = "all";
  auto *whichOption =
      app.add_option("--params", which,
                     "Select the parameters that --params-out writes: all "
                     "(default), or only the trained ones")
          ->check(CLI::IsMember({"all", "trained"}));
  app.add_option("--params-like", options.params.like,
                 "Make --params-out write those tensors that this file or "
                 "folder of weights has, under its names; default: the step's "
                 "own names");
  app.add_option("--profile", options.profile,
                 "Write the durations of operations, medians over all steps "
                 "but the first, to this file; fcdp-compile, fcdp-sim and "
                 "fcdp-opt read it with --profile");
  app.add_option("--profile-steps", options.profileSteps,
                 "Measure this many steps after the first for --profile, and "
                 "run the others as without it; default: all")
      ->check(CLI::Range(int64_t(1), int64_t(1) << 20));
  app.add_option("--trace", options.trace,
                 "Write the last step of all ranks as trace events, for "
                 "Perfetto or chrome://tracing; fcdp-sim reads it with "
                 "--measured");
  app.add_option("--probe-cluster", options.probe,
                 "Run no step; measure the hardware that the ranks run on, and "
                 "write its description to this file, which other tools read "
                 "with --cluster");
  app.add_flag(
      "--report-environment", options.reportsEnvironment,
      "Run no step; print versions, processors, memory, GPUs, links "
      "and limits, for a report of a problem. It has no names of "
      "hosts or users, no addresses, and no values that may be secret");
  std::string target;
  app.add_option(
         "--target", target,
         "Select what --probe-cluster measures: cpu (default), or cuda, "
         "the ranks' GPUs, the copies to and from them, and NCCL; a step "
         "knows its own target")
      ->check(CLI::IsMember({"cpu", "cuda"}));
  const std::map<std::string, OnNonfinite> nonfiniteChoices = {
      {"stop", OnNonfinite::Stop},
      {"skip", OnNonfinite::Skip},
      {"continue", OnNonfinite::Continue}};
  std::string nonfinite = "stop";
  app.add_option("--on-nonfinite", nonfinite,
                 "Select what happens to a step whose loss or gradients are "
                 "infinite or NaN. stop (default): the run ends with an error, "
                 "and no checkpoint is saved. skip: parameters and optimizer "
                 "states stay as they were, and the run goes on; gradients are "
                 "judged by their norm, for which the step must be compiled "
                 "with --clip-norm, and end the run otherwise. continue: the "
                 "update is made")
      ->check(CLI::IsMember(nonfiniteChoices));
  std::string lossScale;
  auto *lossScaleOption = app.add_option(
      "--loss-scale", lossScale,
      "Scale the loss of a step that is compiled with --loss-scale=on: by a "
      "number, or dynamically with settings init=S,growth=F,backoff=F,"
      "interval=N. A step whose gradients overflow is then skipped, and the "
      "scale multiplied with backoff; after N steps in a row without an "
      "overflow it is multiplied with growth. Default: the scale of the "
      "checkpoint "
      "that the run resumes from, or init=65536,growth=2,backoff=0.5,"
      "interval=2000, as torch.amp.GradScaler. A run that resumes goes on with "
      "the checkpoint's scale, not with init");
  addThreads(app, options.threads);
  app.add_option("--state-path", options.stateFolders,
                 "Keep the states of a step that is compiled with "
                 "--states=file in files without a name in folders on local "
                 "disks, DIR[,DIR], of which each gets an equal part. All "
                 "space is allocated at the start. Required for such a step")
      ->delimiter(',');
  app.add_option("--seed", options.seed,
                 "Start the random state of rank r from seed + r; default: 0");
  addNetworkOptions(app, options.timeout, options.interface);
  app.add_flag("--deterministic", options.deterministic,
               "Make operators give the same bits in each run on the same "
               "device, which makes some slower; an operator that cannot ends "
               "the job. Without it, results may differ between runs on a GPU");
  std::string reductionsBy = "fcdp";
  app.add_option(
         "--reductions-by", reductionsBy,
         "Select how gradients are summed over GPUs. fcdp (default): in "
         "f32, in the order of ranks, rounded once. nccl: by NCCL's own "
         "reductions, if a reduction keeps the gradients' type; they "
         "may use switches that add, and round to that type at each "
         "step, so bits depend on the machine")
      ->check(CLI::IsMember({"nccl", "fcdp"}));
  std::string graphs = "off";
  app.add_option("--cuda-graphs", graphs,
                 "auto: capture operators of a micro-batch in the second step, "
                 "where possible, and launch them as CUDA graphs from then on; "
                 "no effect on the CPU. off (default): launch operators one by "
                 "one")
      ->check(CLI::IsMember({"auto", "off"}));
  if (!parseArguments(app, argc, argv))
    return std::nullopt;
  for (const std::string &text : inputs)
    options.inputs.push_back(splitInput("--input", text));
  for (const std::string &text : padding)
    addPadding(options.padding, text, "--pad");
  for (const std::string &text : evaluationInputs)
    options.evaluation.inputs.push_back(splitInput("--eval-input", text));
  if (scheduleOption->count() != 0)
    options.schedule = Schedule::parse(schedule, "--schedule");
  if (lossScaleOption->count() != 0)
    options.lossScaling = LossScaling::parse(lossScale, "--loss-scale");
  options.data = parseDataOptions(data);
  options.onNonfinite = nonfiniteChoices.at(nonfinite);
  options.reducesByNccl = reductionsBy == "nccl";
  options.cudaGraphs = graphs == "auto";
  options.isResumed = !resume.empty();
  if (resume != latest)
    options.resumeFrom = resume;
  options.params.onlyTrained = which == "trained";
  if (options.params.path.empty() &&
      (whichOption->count() != 0 || !options.params.like.empty()))
    throw std::runtime_error(
        "--params, --params-like: expected --params-out, too");
  checkRanks(options.nodes, options.ranksPerNode);
  checkRate(options);
  checkTimeout(options.timeout);
  checkCheckpoints(options);
  checkWhatIsRun(options, target);
  options.probesGpus = target == "cuda";
  checkSteps(options);
  checkFiles(options);
  options.evaluation.isAlone = options.steps == 0;
  return options;
}

} // namespace fcdp::run
