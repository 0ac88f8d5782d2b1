// SPDX-License-Identifier: Apache-2.0
//
// The files of a rank, opened before it meets the others.
#pragma once

#include "Options.h"
#include "inputs/EvaluationInputs.h"
#include "inputs/Inputs.h"
#include "inputs/ReadAhead.h"
#include "inputs/Shapes.h"
#include "job/Launch.h"
#include "output/EventFile.h"
#include "output/JsonLog.h"
#include "output/OutputFiles.h"
#include "plan/StepPlan.h"

#include <memory>

namespace fcdp::run {

struct RankFiles {
  std::unique_ptr<Shapes> shapes;
  /// Null if nothing is trained.
  std::unique_ptr<Inputs> inputs;
  /// Null if nothing is evaluated.
  std::unique_ptr<EvaluationInputs> evaluation;
  /// Null without inputs, and before training.
  std::unique_ptr<ReadAhead> ahead;
  /// Null on all ranks except the first.
  std::unique_ptr<OutputFiles> outputs;
  std::unique_ptr<JsonLog> log;
  std::unique_ptr<EventFile> events;
  /// The profile of the first steps, once they have run, on rank 0.
  std::string profile;
};

/// Opens the files of the command line. Throws std::runtime_error.
void openFiles(const Options &options, const StepPlan &plan,
               const Launch &launch, RankFiles &files);
/// Checks all values of the inputs, which may take minutes.
void scanFiles(const Launch &launch, const RankFiles &files);

} // namespace fcdp::run
