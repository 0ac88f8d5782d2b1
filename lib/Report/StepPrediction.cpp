// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Report/StepPrediction.h"

#include "fcdp/Analysis/StepFunctions.h"
#include "fcdp/Cluster/OperatorCost.h"
#include "fcdp/Simulation/Scenarios.h"
#include "fcdp/Simulation/StepBound.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace fcdp;

static double getRatio(double part, double whole) {
  return whole > 0 ? part / whole : 0;
}

double StepPrediction::getMfu() const {
  return getRatio(model.peakSeconds, times.seconds);
}

double StepPrediction::getHfu() const {
  return getRatio(executed.peakSeconds, times.seconds);
}

double StepPrediction::getTokensPerSecond() const {
  return getRatio(tokens.perStep, times.seconds);
}

double StepPrediction::getExposedInter() const {
  return times.exposed[static_cast<unsigned>(Activity::interGather)] +
         times.exposed[static_cast<unsigned>(Activity::interReduce)];
}

static TokenFacts countTokens(ModuleOp module, const Cluster &cluster) {
  TokenFacts tokens;
  for (InputOp input : getInputsWithMemory(module)) {
    auto type = cast<RankedTensorType>(input.getType());
    // Boolean inputs are masks.
    if (!type.getElementType().isInteger() ||
        type.getElementType().isInteger(1))
      continue;
    tokens.input = input.getName();
    tokens.perMicroBatch = type.getNumElements();
    tokens.perSequence = type.getRank() > 0 ? type.getShape().back() : 1;
    tokens.perStep =
        tokens.perMicroBatch * cluster.getWorldSize() * getMicroBatches(module);
    break;
  }
  return tokens;
}

static void addWork(aten::CallOp call, const Device &device,
                    StepPrediction &prediction) {
  OperatorWork work = measureWork(call);
  if (work.flops == 0)
    return;
  double repeated = isRepeated(call) ? work.flops : work.repeatedFlops;
  double seconds = peakTimeOfWork(device, work);
  double needed = 1 - repeated / work.flops;
  prediction.executed.count += work.flops;
  prediction.executed.peakSeconds += seconds;
  prediction.model.count += needed * work.flops;
  prediction.model.peakSeconds += needed * seconds;
}

static void addWork(const StepProgram &program, const Device &device,
                    StepPrediction &prediction) {
  for (Role role : StepFamily(program.microBatches).getStep())
    for (Operation *op : program.functions.at(role).ops)
      if (auto call = dyn_cast<aten::CallOp>(op))
        addWork(call, device, prediction);
}

static double findBubble(const StepTimes &times) {
  double bubble = times.seconds;
  for (unsigned i = 0; i < kNumActivities; ++i)
    bubble -= times.onCompute[i] + times.exposed[i];
  // Rounding errors of the sums do not count as time.
  return bubble < 1e-9 * times.seconds ? 0 : bubble;
}

SimulatedStep fcdp::simulateOn(ModuleOp module, const Cluster &cluster,
                               bool isTraced) {
  SimulatedStep step;
  step.program = makeStepProgram(module, cluster);
  StepPrediction &prediction = step.prediction;
  prediction.cluster = cluster.name;
  prediction.spread = cluster.spread;
  prediction.times =
      simulateStep(step.program, isTraced ? &step.trace : nullptr);
  prediction.tokens = countTokens(module, cluster);
  prediction.bubble = findBubble(prediction.times);
  prediction.family = timeFamily(module, cluster, prediction.times.seconds);
  addWork(step.program, cluster.device, prediction);
  return step;
}

void fcdp::addScenarios(SimulatedStep &step, const Cluster &cluster) {
  step.prediction.scenarios = simulateScenarios(
      step.program, cluster, step.prediction.times.seconds, getCostInputs());
}

std::array<double, kNumResources> fcdp::boundOn(ModuleOp module,
                                                const Cluster &cluster) {
  CostModel model(cluster);
  return boundStep(module, [&](Operation *op) { return model.costOf(op); });
}
