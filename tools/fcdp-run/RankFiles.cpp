// SPDX-License-Identifier: Apache-2.0
#include "RankFiles.h"

#include <stdexcept>
#include <string>

namespace fcdp::run {

/// Checks that positions of rows fit in 64 bits.
static void checkPositions(const Options &options, const StepPlan &plan) {
  constexpr int64_t most = int64_t(1) << 60;
  __int128 rows =
      __int128(options.steps) * plan.microBatches * plan.mesh.size();
  if (rows > most)
    throw std::runtime_error(
        "--steps: expected at most " + std::to_string(most) +
        " rows in all steps, got " + std::to_string(options.steps) +
        " steps of " + std::to_string(plan.microBatches) + " micro-batches");
}

void openFiles(const Options &options, const StepPlan &plan,
               const Launch &launch, RankFiles &files) {
  bool isFirst = worldRank(plan.mesh, launch.place) == 0;
  files.log = std::make_unique<JsonLog>(isFirst ? options.json : "");
  files.events =
      std::make_unique<EventFile>(isFirst ? options.tensorboard : "");
  if (isFirst) {
    files.outputs = std::make_unique<OutputFiles>(outputFiles(options));
    files.outputs->open();
  }
  if (isFirst && !options.params.path.empty())
    checkSpace("--params-out", options.params.path,
               checkOutput(plan, options.params));
  if (options.steps > 0 && !plan.trains())
    throw std::runtime_error(
        "--steps: expected 0 for a step that was compiled for evaluations "
        "alone, got " +
        std::to_string(options.steps));
  checkPositions(options, plan);
  files.shapes = std::make_unique<Shapes>(plan, options.padding);
  if (options.steps > 0)
    files.inputs = std::make_unique<Inputs>(plan, options.inputs, options.data,
                                            files.shapes.get());
  else
    checkNamesOfAll(plan, options.inputs);
  files.evaluation = EvaluationInputs::open(plan, options.evaluation,
                                            options.inputs, options.data);
}

void scanFiles(const Launch &launch, const RankFiles &files) {
  // Once per node is enough.
  if (launch.place.local != 0)
    return;
  if (files.inputs)
    files.inputs->checkValues();
  if (files.evaluation)
    files.evaluation->checkValues();
}

} // namespace fcdp::run
