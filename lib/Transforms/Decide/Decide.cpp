// SPDX-License-Identifier: Apache-2.0

#include "ApplyPlan.h"
#include "DecideRemarks.h"
#include "MoveSearch.h"
#include "Options/ClusterOption.h"
#include "Shard/MergingRemark.h"
#include "StepPlanning.h"
#include "Trial.h"
#include "Verify/VerifyPhase.h"
#include "fcdp/Planning/Activations/StoredActivations.h"
#include "fcdp/Planning/Layout/JoinBuckets.h"
#include "fcdp/Planning/Layout/ShardStates.h"
#include "fcdp/Simulation/StepProgram.h"
#include "fcdp/Support/Units.h"
#include "fcdp/Transforms/Options/OuterSpec.h"
#include "fcdp/Transforms/Options/Strategy.h"
#include "fcdp/Transforms/Options/WireSpec.h"
#include "fcdp/Transforms/PipelineOptions.h"

#include "mlir/IR/Remarks.h"

namespace fcdp {
#define GEN_PASS_DEF_DECIDEPASS
#include "fcdp/Transforms/Passes.h.inc"
} // namespace fcdp

using namespace mlir;
using namespace fcdp;

namespace {
/// A plan that counts on things leaving the device.
struct MovingPlan {
  StepDecisions plan;
  /// The fewest moves that the plan needs.
  Moves moves;
};

class DecidePass : public fcdp::impl::DecidePassBase<DecidePass> {
public:
  using DecidePassBase::DecidePassBase;
  DecidePass(DecidePassOptions options, std::optional<Cluster> described)
      : DecidePassBase(std::move(options)), described(std::move(described)) {}
  void runOnOperation() override;

private:
  FailureOr<std::optional<Accumulation>> getAccumulation();
  FailureOr<std::optional<Collectives>> getCollectives();
  FailureOr<Cluster> getCluster(StringRef what);
  void remark(size_t bucketsBefore);
  FailureOr<StepDecisions> planByPreset();
  FailureOr<StepDecisions> planByCost();
  FailureOr<StepDecisions> planMoving(const CostModel &model,
                                      const StepChoices &choices,
                                      std::string why);
  FailureOr<std::optional<MovingPlan>>
  planWith(const CostModel &model, StepChoices choices, bool statesMove,
           bool activationsMove, std::string &why);
  LogicalResult readMoves();
  StepChoices getChoices(const Cluster &described);
  LogicalResult addOuterSteps(StepChoices &choices);
  SmallVector<Sharding> getShardings();

  std::optional<Cluster> described;
  /// The choices that later passes have.
  MoveChoices movable;
};
} // namespace

std::unique_ptr<Pass> fcdp::createDecidePass(DecidePassOptions options,
                                             std::optional<Cluster> described) {
  return std::make_unique<DecidePass>(std::move(options), std::move(described));
}

/// Fails if a strategy would decide for some buckets, but none has the layout
/// that it needs. Buckets get their layout before.
static LogicalResult checkSharding(ModuleOp module, StringRef name,
                                   Sharding sharding) {
  BucketOp other;
  for (auto bucket : module.getOps<BucketOp>()) {
    if (bucket.getResidency())
      continue;
    if (bucket.getSharding() == sharding)
      return success();
    other = bucket;
  }
  if (!other)
    return success();
  return other.emitOpError("strategy '")
         << name << "' needs buckets of sharding '"
         << stringifySharding(sharding) << "', got '"
         << stringifySharding(other.getSharding())
         << "'; run --fcdp-bucket=sharding=" << stringifySharding(sharding);
}

/// Returns the value of `parsed`, or emits an error at `module` about `option`.
template <typename T>
static FailureOr<T> check(ModuleOp module, StringRef option,
                          llvm::Expected<T> parsed) {
  if (parsed)
    return *parsed;
  return module.emitError(option) << ": " << toString(parsed.takeError());
}

FailureOr<std::optional<Accumulation>> DecidePass::getAccumulation() {
  if (accumulate.empty())
    return std::optional<Accumulation>();
  FailureOr<Accumulation> given =
      check(getOperation(), "accumulate", parseAccumulation(accumulate));
  if (failed(given))
    return failure();
  return std::optional(*given);
}

/// Returns none if the collectives are still to be chosen.
FailureOr<std::optional<Collectives>> DecidePass::getCollectives() {
  if (collectives.empty())
    return strategy == kAutoStrategy ? std::nullopt
                                     : std::optional(Collectives::two_level);
  return check(getOperation(), "collectives", parseCollectives(collectives));
}

/// Fails if no cluster is given, with an error that `what` needs it.
FailureOr<Cluster> DecidePass::getCluster(StringRef what) {
  ModuleOp module = getOperation();
  if (cluster.empty() && !described)
    return module.emitError(what)
           << " 'auto' chooses for a cluster; give one as 'cluster', a file or "
              "the name of a preset";
  return check(module, "cluster",
               getClusterOf(getMesh(module), described, cluster, profile));
}

/// Returns the module's value or, if there is none, the option if it is at
/// least `least`.
static std::optional<int64_t> getGiven(std::optional<int64_t> stated,
                                       int64_t option, int64_t least) {
  return stated || option < least ? stated : std::optional(option);
}

FailureOr<StepDecisions> DecidePass::planByPreset() {
  ModuleOp module = getOperation();
  FailureOr<Strategy> preset =
      check(module, "strategy", parseStrategy(strategy));
  FailureOr<std::optional<Accumulation>> accumulation = getAccumulation();
  FailureOr<std::optional<Collectives>> chosen = getCollectives();
  if (failed(preset) || failed(accumulation) || failed(chosen))
    return failure();
  StepDecisions plan;
  if (isShardingOpen(module) && canShardStates(module, preset->sharding))
    shardStates(module, preset->sharding);
  else if (failed(checkSharding(module, strategy, preset->sharding)))
    return failure();
  plan.residency.buckets.assign(llvm::range_size(module.getOps<BucketOp>()),
                                {preset->residency, preset->carry,
                                 chosen->value_or(Collectives::two_level)});
  plan.accumulation = accumulation->value_or(preset->accumulation);
  plan.prefetch =
      getGiven(getPrefetch(module), prefetch, 0).value_or(kDefaultPrefetch);
  plan.reductions = getGiven(getReductions(module), reductions, 1)
                        .value_or(kDefaultReductions);
  if (*chosen)
    return plan;
  FailureOr<Cluster> described = getCluster("collectives");
  if (failed(described) ||
      failed(planCollectives(module, CostModel(*described),
                             getWireChoice(wire, reduceWire), plan)))
    return failure();
  return plan;
}

/// Returns the shardings that differ on this mesh, if the buckets leave the
/// sharding open. Outer steps need states that the ranks of a node have.
SmallVector<Sharding> DecidePass::getShardings() {
  ModuleOp module = getOperation();
  MeshOp mesh = getMesh(module);
  if (!outer.empty() && isShardingOpen(module))
    return {Sharding::node};
  SmallVector<Sharding> shardings{Sharding::world};
  auto add = [&](Sharding sharding, bool isOther) {
    if (isOther && isShardingOpen(module) && canShardStates(module, sharding))
      shardings.push_back(sharding);
  };
  add(Sharding::node, mesh.getNode() > 1 && mesh.getLocal() > 1);
  add(Sharding::none, mesh.getWorldSize() > 1);
  return shardings;
}

StepChoices DecidePass::getChoices(const Cluster &described) {
  StepChoices choices;
  choices.shardings = getShardings();
  choices.mayMerge = canJoinBuckets(getOperation());
  choices.budget.device =
      deviceMemory > 0 ? deviceMemory : described.getDeviceCapacity().usable;
  choices.budget.host = hostMemory > 0 ? hostMemory : described.host.memory;
  bool hasSeveral = getMicroBatches(getOperation()) > 1;
  choices.accumulations = {Accumulation::sharded};
  // Within one node, these are the same as `sharded`.
  if (hasSeveral && getMesh(getOperation()).getNode() > 1 && outer.empty())
    choices.accumulations.append({Accumulation::node, Accumulation::node_host});
  if (hasSeveral)
    choices.accumulations.push_back(Accumulation::full);
  choices.prefetch = getGiven(getPrefetch(getOperation()), prefetch, 0);
  choices.reductions = getGiven(getReductions(getOperation()), reductions, 1);
  return choices;
}

/// Adds outer steps to the choices, which are of two-level collectives, and
/// leaves out the host memory of their states.
LogicalResult DecidePass::addOuterSteps(StepChoices &choices) {
  ModuleOp module = getOperation();
  FailureOr<OuterSpec> spec =
      check(module, "outer", parseOuter(outer, &getContext()));
  if (failed(spec))
    return failure();
  choices.outer = outer;
  // Fewer buckets than fragments are an error.
  choices.mayMerge &= spec->outer.getFragments() == 1;
  if (!choices.collectives)
    choices.collectives = Collectives::two_level;
  int64_t elements = 0;
  for (auto bucket : module.getOps<BucketOp>())
    if (bucket.getTrainable())
      elements += static_cast<int64_t>(bucket.getElements());
  auto states = static_cast<int64_t>(spec->outer.getStates().size());
  auto bytes = static_cast<int64_t>(sizeof(float)) * states * elements;
  choices.budget.host = std::max<int64_t>(0, choices.budget.host - bytes);
  return success();
}

FailureOr<StepDecisions> DecidePass::planByCost() {
  ModuleOp module = getOperation();
  if (failed(checkSimulable(module)))
    return failure();
  FailureOr<Cluster> described = getCluster("strategy");
  if (failed(described))
    return failure();
  FailureOr<std::optional<Accumulation>> accumulation = getAccumulation();
  FailureOr<std::optional<Collectives>> chosen = getCollectives();
  if (failed(accumulation) || failed(chosen))
    return failure();
  StepChoices choices = getChoices(*described);
  choices.collectives = *chosen;
  auto messages = std::make_shared<WireChoice>(getWireChoice(wire, reduceWire));
  messages->isSummed = outer.empty();
  choices.messages = messages;
  if (!outer.empty() && failed(addOuterSteps(choices)))
    return failure();
  if (*accumulation)
    choices.accumulations = {**accumulation};
  CostModel model(*described);
  std::string why;
  FailureOr<std::optional<StepDecisions>> plan = planStep(
      module, model, choices, SearchTiming(getAnalysisManager(), module), why);
  if (failed(plan))
    return failure();
  if (*plan)
    return std::move(**plan);
  return planMoving(model, choices, std::move(why));
}

/// Reads the options that let later passes move states and values.
LogicalResult DecidePass::readMoves() {
  llvm::Expected<StatesSpec> ofStates = parseStates(states);
  if (!ofStates)
    return getOperation().emitError("states: ")
           << toString(ofStates.takeError());
  llvm::Expected<ActivationsMode> ofValues = parseActivations(activations);
  if (!ofValues)
    return getOperation().emitError("activations: ")
           << toString(ofValues.takeError());
  movable.states = *ofStates;
  movable.activations = *ofValues;
  return success();
}

/// Returns the best plan with all states, or all values of the forward pass
/// that are worth a copy, in host memory, and then with as few there as it
/// needs; none if no plan fits.
FailureOr<std::optional<MovingPlan>>
DecidePass::planWith(const CostModel &model, StepChoices choices,
                     bool statesMove, bool activationsMove, std::string &why) {
  ModuleOp module = getOperation();
  why.clear();
  Trial moved(module);
  int64_t bytes = 0;
  if (activationsMove) {
    AllOnHost values(moved.get(), model);
    bytes += values.getBytes();
    values.keep();
  }
  if (statesMove)
    for (const MovableStates &one : findMovableStates(moved.get())) {
      bytes += one.bytes;
      moveStates(moved.get(), one, Arena::host, movable.states.pieceBytes);
    }
  choices.budget.host = std::max<int64_t>(
      0, choices.budget.host -
             bytes * static_cast<int64_t>(getMesh(module).getLocal()));
  FailureOr<std::optional<StepDecisions>> plan =
      planStep(moved.get(), model, choices,
               SearchTiming(getAnalysisManager(), module), why);
  if (failed(plan))
    return failure();
  if (!*plan)
    return std::optional<MovingPlan>();
  Trial planned(module);
  if (failed(planned.decide(**plan, model, choices)))
    return failure();
  FailureOr<Moves> moves =
      MoveSearch(planned.get(), model.getCluster(), movable).find();
  if (failed(moves))
    return failure();
  return std::optional(MovingPlan{std::move(**plan), std::move(*moves)});
}

/// Returns the fastest plan that counts on states and values of the forward
/// pass leaving the device, as far as options allow it. `why` says why none
/// fits with all of them on the device.
FailureOr<StepDecisions> DecidePass::planMoving(const CostModel &model,
                                                const StepChoices &choices,
                                                std::string why) {
  ModuleOp module = getOperation();
  movable.limit = choices.budget.device;
  // Outer steps need states on the device.
  bool mayStates =
      movable.states.mode == StatesSpec::Mode::Auto && choices.outer.empty();
  bool mayValues = movable.activations == ActivationsMode::Auto;
  std::string compared = "on the device: " + why;
  std::optional<MovingPlan> best;
  for (auto [statesMove, valuesMove] :
       {std::pair(false, true), std::pair(true, false),
        std::pair(true, true)}) {
    if ((statesMove && !mayStates) || (valuesMove && !mayValues))
      continue;
    StringRef what = !statesMove  ? "activations"
                     : valuesMove ? "states and activations"
                                  : "states";
    FailureOr<std::optional<MovingPlan>> found =
        planWith(model, choices, statesMove, valuesMove, why);
    if (failed(found))
      return failure();
    compared += ("; with " + what + " that may leave: ").str();
    if (!*found) {
      compared += why;
      continue;
    }
    const Moves &moves = (*found)->moves;
    bool fits = moves.deviceBytes <= movable.limit;
    compared += formatSeconds(moves.seconds) + " and " +
                formatBytes(moves.deviceBytes) + ", " + moves.describe();
    if (!best || (fits && best->moves.deviceBytes > movable.limit) ||
        (fits && moves.seconds < best->moves.seconds))
      best = std::move(*found);
  }
  if (!best) {
    InFlightDiagnostic error = module.emitError("strategy 'auto': ") << why;
    if (mayStates || mayValues)
      error << ", with "
            << (!mayStates  ? "activations"
                : mayValues ? "states and activations"
                            : "states")
            << " in host memory";
    return error;
  }
  if (getContext().getRemarkEngine())
    remark::passed(module.getLoc(),
                   remark::RemarkOpts::name("moves").category(getArgument()))
        << compared + "; chosen: " + best->moves.describe();
  return std::move(best->plan);
}

/// Emits a remark on each decision. Times need a cluster. An error in a given
/// cluster is reported where a decision needs it.
void DecidePass::remark(size_t bucketsBefore) {
  ModuleOp module = getOperation();
  if (!getContext().getRemarkEngine())
    return;
  remarkOnMerging(module, getArgument(), bucketsBefore);
  std::optional<CostModel> model;
  if (!cluster.empty() || described) {
    llvm::Expected<Cluster> given =
        getClusterOf(getMesh(module), described, cluster, profile);
    if (given)
      model.emplace(*given);
    else
      llvm::consumeError(given.takeError());
  }
  remarkOnResidencies(module, model ? &*model : nullptr);
}

/// Returns whether everything has been decided before.
static bool isDecided(ModuleOp module) {
  return getStrategy(module) &&
         llvm::all_of(module.getOps<BucketOp>(), [](BucketOp bucket) {
           return bucket.getResidency().has_value();
         });
}

void DecidePass::runOnOperation() {
  ModuleOp module = getOperation();
  if (failed(requirePhase(module, Phase::sharded)) ||
      failed(checkOptions(module, prefetch, reductions, deviceMemory,
                          hostMemory)) ||
      failed(checkOption(module, "wire", wire)) ||
      failed(checkOption(module, "reduce-wire", reduceWire)) ||
      failed(readMoves()))
    return signalPassFailure();
  if (isDecided(module))
    return;
  size_t before = llvm::range_size(module.getOps<BucketOp>());
  FailureOr<StepDecisions> plan =
      strategy == kAutoStrategy ? planByCost() : planByPreset();
  if (failed(plan) || failed(applyPlan(module, *plan)))
    return signalPassFailure();
  remark(before);
  setShardingOpen(module, false);
  setMergingOpen(module, false);
  setStrategy(module, strategy);
}
