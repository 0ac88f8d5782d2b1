// SPDX-License-Identifier: Apache-2.0

#include "MoveSearch.h"

#include "PhasePasses.h"
#include "fcdp/Planning/Memory/DeviceMemory.h"
#include "fcdp/Planning/Overlap/OverlapAnalysis.h"
#include "fcdp/Planning/States/StatePlacement.h"
#include "fcdp/Simulation/Simulator.h"
#include "fcdp/Simulation/StepProgram.h"
#include "fcdp/Transforms/Passes.h"

#include "mlir/Pass/PassManager.h"

using namespace mlir;
using namespace fcdp;

int64_t Moves::countStates() const { return llvm::count(states, true); }

std::string Moves::describe() const {
  if (countStates() == 0 && !hasActivations)
    return "all on the device";
  StringRef what = countStates() == 0 ? "activations"
                   : hasActivations   ? "states and activations"
                                      : "states";
  return (what + " in host memory").str();
}

static StringRef stringifyMode(ActivationsMode mode) {
  switch (mode) {
  case ActivationsMode::Device:
    return "device";
  case ActivationsMode::Host:
    return "host";
  case ActivationsMode::Auto:
    return "auto";
  }
  llvm_unreachable("unknown mode");
}

MoveSearch::MoveSearch(ModuleOp module, const std::optional<Cluster> &cluster,
                       const MoveChoices &choices)
    : copy(module), cluster(cluster),
      times(cluster ? *cluster : llvm::cantFail(loadCluster("a100-80gb"))),
      choices(choices) {
  if (!cluster) {
    MeshOp mesh = getMesh(module);
    times.nodes = mesh.getNode();
    times.ranksPerNode = mesh.getLocal();
  }
  if (choices.states.mode == StatesSpec::Mode::Auto)
    movable = findMovableStates(copy.get());
}

/// Measures the plan in which these states are in host memory, and values of
/// the forward pass by `activations`.
LogicalResult MoveSearch::measure(Moves &moves, ActivationsMode activations) {
  OwningOpRef<ModuleOp> step(cast<ModuleOp>(copy.get()->clone()));
  for (auto [moved, states] : llvm::zip_equal(moves.states, movable))
    if (moved)
      fcdp::moveStates(*step, states, Arena::host, choices.states.pieceBytes);
  auto run = [&](auto build) {
    PassManager passes(step->getContext());
    passes.enableVerifier(false); // see Trial
    build(passes);
    return passes.run(*step);
  };
  if (failed(run(buildDecided)))
    return failure();
  // A schedule that does not fit has the default distances.
  if (cluster && !isPrefetched(*step))
    llvm::consumeError(
        decideOverlap(*step, CostModel(*cluster), choices.limit,
                      /*visit=*/nullptr,
                      /*mayMove=*/activations == ActivationsMode::Auto));
  LogicalResult isScheduled = run([&](OpPassManager &passes) {
    buildOrdered(passes);
    DecideActivationsPassOptions options;
    options.activations = stringifyMode(activations).str();
    options.deviceMemory = choices.limit;
    passes.addPass(createDecideActivationsPass(std::move(options), times));
    passes.addPass(createStoreActivationsPass({}, times));
    passes.addPass(createSchedulePass());
  });
  if (failed(isScheduled))
    return failure();
  if (succeeded(checkSimulable(*step)))
    moves.seconds = simulateStep(makeStepProgram(*step, times)).seconds;
  if (failed(run([](OpPassManager &passes) {
        passes.addPass(createMakeGradientsInPlacePass());
      })))
    return failure();
  FailureOr<int64_t> bytes = peakDeviceBytes(*step);
  if (failed(bytes))
    return failure();
  moves.deviceBytes = *bytes;
  moves.hasActivations = activations != ActivationsMode::Device;
  return success();
}

/// Returns the time in which an update loads and stores the states. Without a
/// cluster it is in proportion to their bytes.
static double getCopyTime(const std::optional<Cluster> &cluster,
                          const MovableStates &states) {
  auto bytes = static_cast<double>(states.bytes);
  if (!cluster)
    return bytes;
  CostModel model(*cluster);
  return model.costOfLoad(bytes).getTotal() +
         model.costOfStore(bytes).getTotal();
}

/// Moves states until the plan fits, or all of them. Pieces need memory that
/// only a plan with them shows, so the bytes that must leave grow by the excess
/// of the last plan.
FailureOr<Moves> MoveSearch::moveStates(ActivationsMode activations) {
  StatePlacementProblem problem;
  for (const MovableStates &states : movable)
    problem.buckets.push_back({states.bytes, getCopyTime(cluster, states)});
  StatePlacement placed;
  placed.isOnHost.assign(movable.size(), false);
  Moves moves;
  moves.states = placed.isOnHost;
  if (failed(measure(moves, activations)))
    return failure();
  while (!fits(moves) && llvm::is_contained(moves.states, false)) {
    problem.needed = std::max(problem.needed, placed.countBytes(problem)) +
                     (moves.deviceBytes - choices.limit);
    llvm::Error error = problem.check();
    if (!error) {
      placed = placeStates(problem);
      error = placed.verify(problem);
    }
    if (error)
      return copy.get().emitError("states: ") << toString(std::move(error));
    moves.states = placed.isOnHost;
    if (failed(measure(moves, activations)))
      return failure();
  }
  return moves;
}

FailureOr<Moves> MoveSearch::find() {
  compared.clear();
  // `host` moves hidden values in any case.
  ActivationsMode least = choices.activations == ActivationsMode::Auto
                              ? ActivationsMode::Device
                              : choices.activations;
  auto add = [&](FailureOr<Moves> moves) {
    if (succeeded(moves))
      compared.push_back(std::move(*moves));
    return succeeded(moves);
  };
  Moves none;
  none.states.assign(movable.size(), false);
  if (failed(measure(none, least)))
    return failure();
  compared.push_back(none);
  if (fits(none))
    return none;
  bool mayStates = !movable.empty();
  bool mayActivations = choices.activations == ActivationsMode::Auto;
  if (mayActivations) {
    Moves values = none;
    if (failed(measure(values, ActivationsMode::Auto)))
      return failure();
    compared.push_back(values);
  }
  if (mayStates && !add(moveStates(least)))
    return failure();
  if (mayStates && mayActivations && !add(moveStates(ActivationsMode::Host)))
    return failure();
  if (mayStates && mayActivations &&
      llvm::none_of(compared, [&](const Moves &one) { return fits(one); }) &&
      !add(moveStates(ActivationsMode::Auto)))
    return failure();
  return *llvm::min_element(compared, [&](const Moves &a, const Moves &b) {
    if (fits(a) != fits(b))
      return fits(a);
    return fits(a) ? a.seconds < b.seconds : a.deviceBytes < b.deviceBytes;
  });
}
