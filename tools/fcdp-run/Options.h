// SPDX-License-Identifier: Apache-2.0
//
// The command line of fcdp-run.
#pragma once

#include "checkpoint/ParameterFiles.h"
#include "core/OnNonfinite.h"
#include "inputs/EvaluationInputs.h"
#include "output/OutputFiles.h"
#include "session/LossScale.h"
#include "session/Schedule.h"

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
  /// The elements that are padding in rows of a step of several shapes, by
  /// input name.
  std::map<std::string, double> padding;
  /// None: those of the checkpoint, or else the compiled rate, constantly.
  std::optional<double> learningRate;
  std::optional<Schedule> schedule;
  DataOptions data;
  EvaluationOptions evaluation;
  /// The folder for checkpoints; empty to save none.
  std::string saveDir;
  /// None: at the end only.
  std::optional<int64_t> saveEvery;
  std::optional<uint32_t> keep;
  /// --resume was given, and with a path.
  bool isResumed = false;
  std::string resumeFrom;
  std::optional<uint32_t> nodes, ranksPerNode;
  std::string json, profile, trace, probe;
  /// Steps that the profile is of. None: all but the first.
  std::optional<int64_t> profileSteps;
  /// No step runs: the environment is described.
  bool reportsEnvironment = false;
  /// --probe-cluster measures GPUs.
  bool probesGpus = false;
  /// The folder of TensorBoard's event files; empty for none.
  std::string tensorboard;
  /// Of so many steps one is printed.
  int64_t logEvery = 1;
  /// What --params-out writes; an empty path writes nothing.
  ParameterOutput params;
  std::optional<int> threads;
  uint64_t seed = 0;
  std::optional<double> timeout;
  std::string interface;
  /// Operators give the same bits in each run.
  bool deterministic = false;
  /// NCCL sums gradients.
  bool reducesByNccl = false;
  /// Operators of a micro-batch are launched as CUDA graphs, where they may be.
  bool cudaGraphs = false;
  OnNonfinite onNonfinite = OnNonfinite::Stop;
  /// None: that of the checkpoint, or else the default.
  std::optional<LossScaling> lossScaling;
};

/// The files that rank 0 makes, by option.
std::vector<NamedFile> outputFiles(const Options &options);

/// Returns the options, or none after printing the help. Throws
/// std::runtime_error.
std::optional<Options> parseOptions(int argc, char **argv);

} // namespace fcdp::run
