// SPDX-License-Identifier: Apache-2.0
//
// The command line of fcdp-run.
#pragma once

#include "checkpoint/ParameterFiles.h"
#include "core/OnNonfinite.h"
#include "inputs/EvaluationInputs.h"
#include "output/OutputFiles.h"
#include "policy/LossScale.h"
#include "policy/Schedule.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace fcdp::run {

struct Options {
  std::string step;
  /// Files and folders.
  std::vector<std::string> weights;
  int64_t steps = 1;
  std::vector<InputOption> inputs;
  /// The padding of rows of a step of several shapes, by input name.
  std::map<std::string, double> padding;
  /// The learning rate; none for that of the checkpoint, or else the compiled
  /// rate.
  std::optional<double> learningRate;
  std::optional<Schedule> schedule;
  DataOptions data;
  EvaluationOptions evaluation;
  /// The folder for checkpoints; empty to save none.
  std::string saveDir;
  /// The number of steps between checkpoints; none for one checkpoint at the
  /// end.
  std::optional<int64_t> saveEvery;
  std::optional<uint32_t> keep;
  /// Whether --resume was given, and its path.
  bool isResumed = false;
  std::string resumeFrom;
  std::optional<uint32_t> nodes, ranksPerNode;
  std::string json, profile, trace, probe;
  /// The number of steps that are profiled; none for all except the first.
  std::optional<int64_t> profileSteps;
  /// Whether the environment is described instead of running a step.
  bool reportsEnvironment = false;
  /// Whether --probe-cluster measures GPUs.
  bool probesGpus = false;
  /// The folder of TensorBoard's event files; empty for none.
  std::string tensorboard;
  /// One of so many steps is printed.
  int64_t logEvery = 1;
  /// The parameters that --params-out writes; nothing if the path is empty.
  ParameterOutput params;
  std::optional<int> threads;
  uint64_t seed = 0;
  std::optional<double> timeout;
  std::string interface;
  /// Whether operators give the same bits in each run.
  bool deterministic = false;
  /// Folders for states in files.
  std::vector<std::string> stateFolders;
  /// Whether NCCL adds gradients.
  bool reducesByNccl = false;
  /// Whether operators of a micro-batch are launched as CUDA graphs where that
  /// is possible.
  bool cudaGraphs = false;
  OnNonfinite onNonfinite = OnNonfinite::Stop;
  /// The scaling of the loss; none for that of the checkpoint, or else the
  /// default.
  std::optional<LossScaling> lossScaling;
};

/// Returns the files that rank 0 makes, by option.
std::vector<NamedFile> outputFiles(const Options &options);

/// Returns the options, or none after printing the help. Throws
/// std::runtime_error.
std::optional<Options> parseOptions(int argc, char **argv);

} // namespace fcdp::run
