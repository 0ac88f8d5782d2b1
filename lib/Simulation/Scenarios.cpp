// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Simulation/Scenarios.h"

#include "fcdp/Cluster/CostModel.h"
#include "fcdp/Cluster/ScaledCluster.h"

#include <tuple>

using namespace mlir;
using namespace fcdp;

static bool isEqual(const Cost &a, const Cost &b) {
  auto tie = [](const Cost &cost) {
    return std::tie(cost.resource, cost.latency, cost.seconds,
                    cost.deviceMemory, cost.hostMemory, cost.issue);
  };
  return tie(a) == tie(b);
}

namespace {
/// A program whose costs are changed from scenario to scenario.
class ScenarioProgram {
public:
  explicit ScenarioProgram(const StepProgram &nominal)
      : nominal(nominal), program(nominal) {}

  /// Gives all instructions their costs in a scenario. Returns whether any
  /// differs from its nominal cost.
  bool price(const Cluster &scenario, CostInput input, double factor);
  double simulate() const { return simulateStep(program).seconds; }

private:
  const StepProgram &nominal;
  StepProgram program;
};
} // namespace

bool ScenarioProgram::price(const Cluster &scenario, CostInput input,
                            double factor) {
  CostModel model(scenario);
  bool isChanged = false;
  auto priceAll = [&](const StepProgram::Function &from,
                      StepProgram::Function &to) {
    for (size_t i = 0; i < from.ops.size(); ++i) {
      const Instruction &known = from.instructions[i];
      Cost &cost = to.instructions[i].cost;
      cost = known.cost;
      if (known.kind == Instruction::work &&
          dependsOn(getWorkKind(from.ops[i]), input)) {
        cost = model.costOf(from.ops[i]);
        cost.issue = known.cost.issue;
      }
      // The issue time of an instruction includes that of operations without
      // work.
      if (input == CostInput::issue)
        cost.issue /= factor;
      isChanged |= !isEqual(cost, known.cost);
    }
  };
  for (auto &[role, function] : program.functions)
    priceAll(nominal.functions.at(role), function);
  for (auto [from, to] :
       llvm::zip_equal(nominal.occasional, program.occasional))
    priceAll(from.function, to.function);
  return isChanged;
}

ScenarioTimes fcdp::simulateScenarios(const StepProgram &program,
                                      const Cluster &cluster, double nominal,
                                      llvm::ArrayRef<CostInput> inputs) {
  ScenarioProgram changed(program);
  return runScenarios(
      cluster, inputs, nominal,
      [&](const Cluster &scenario, CostInput input, double factor) {
        return changed.price(scenario, input, factor) ? changed.simulate()
                                                      : nominal;
      });
}
