// SPDX-License-Identifier: Apache-2.0

#include "VerifyPhase.h"
#include "fcdp/Scheduling/ResidencyAnalysis.h"
#include "fcdp/Simulation/StepProgram.h"
#include "fcdp/Transforms/Strategy.h"

#include "mlir/IR/Builders.h"
#include "mlir/Pass/PassManager.h"

namespace fcdp {
#define GEN_PASS_DEF_DECIDEPASS
#include "fcdp/Transforms/Passes.h.inc"
} // namespace fcdp

using namespace mlir;
using namespace fcdp;

/// What presets have: two copies and two reductions at once, as FSDP.
static constexpr int64_t kDefaultPrefetch = 1, kDefaultReductions = 2;

namespace {
/// What is decided by cost, for all buckets in the order of the module.
struct Plan {
  ResidencySolution solution;
  Accumulation accumulation;
  int64_t prefetch, reductions;
};

class DecidePass : public fcdp::impl::DecidePassBase<DecidePass> {
public:
  using DecidePassBase::DecidePassBase;
  void runOnOperation() override;

private:
  LogicalResult decideByPreset();
  LogicalResult decideByCost();
  FailureOr<Cluster> getCluster();
  FailureOr<SmallVector<Accumulation>> getAccumulations();
  void addUniform(ResidencyProblem problem, const Plan &best,
                  std::vector<Plan> &plans);
  FailureOr<double> simulate(const Plan &plan, const CostModel &model);
  LogicalResult applyFastest(ArrayRef<Plan> plans, const CostModel &model);
};
} // namespace

static void setIfAbsent(ModuleOp module, StringRef name, int64_t value) {
  if (!module->hasAttr(name))
    module->setAttr(name,
                    Builder(module.getContext()).getI64IntegerAttr(value));
}

/// What `residency` comes to in a bucket whose shard is the slice that would be
/// kept, or the whole.
static Residency adapt(Residency residency, Sharding sharding) {
  if (isPossible(sharding, residency))
    return residency;
  return sharding == Sharding::node ? Residency::drop : Residency::full;
}

/// Writes what is not given. A given residency also holds between
/// micro-batches.
static void decide(BucketOp bucket, const Strategy &strategy) {
  if (!bucket.getResidency()) {
    Residency residency = adapt(strategy.residency, bucket.getSharding());
    Residency carry = adapt(strategy.carry, bucket.getSharding());
    bucket.setResidency(residency);
    if (!bucket.getCarry() && carry != residency)
      bucket.setCarry(carry);
  }
  if (bucket.getTrainable() && !bucket.getAccumulation() &&
      strategy.accumulation != Accumulation::sharded)
    bucket.setAccumulation(strategy.accumulation);
}

/// Buckets are laid out before. Fails if a strategy would decide for some of
/// them, but none is laid out as it needs.
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

/// Gives what `parsed` holds, or an error of `module` about `option`.
template <typename T>
static FailureOr<T> check(ModuleOp module, StringRef option,
                          llvm::Expected<T> parsed) {
  if (parsed)
    return *parsed;
  return module.emitError(option) << ": " << toString(parsed.takeError());
}

LogicalResult DecidePass::decideByPreset() {
  ModuleOp module = getOperation();
  FailureOr<Strategy> preset =
      check(module, "strategy", parseStrategy(strategy));
  if (failed(preset))
    return failure();
  if (!accumulate.empty()) {
    FailureOr<Accumulation> given =
        check(module, "accumulate", parseAccumulation(accumulate));
    if (failed(given))
      return failure();
    preset->accumulation = *given;
  }
  if (failed(checkSharding(module, strategy, preset->sharding)))
    return failure();
  for (auto bucket : module.getOps<BucketOp>())
    decide(bucket, *preset);
  return success();
}

/// The description, with as many nodes and ranks as the mesh has.
FailureOr<Cluster> DecidePass::getCluster() {
  ModuleOp module = getOperation();
  if (cluster.empty())
    return module.emitError("strategy 'auto' chooses for a cluster; give one "
                            "as 'cluster', a file or the name of a preset");
  FailureOr<Cluster> loaded = check(module, "cluster", loadCluster(cluster));
  if (failed(loaded))
    return failure();
  MeshOp mesh = getMesh(module);
  loaded->nodes = mesh.getNode();
  loaded->ranksPerNode = mesh.getLocal();
  if (llvm::Error error = loaded->check())
    return module.emitError("cluster '")
           << loaded->name << "' with the nodes and ranks of this mesh: "
           << toString(std::move(error));
  return loaded;
}

/// The ways to sum gradients that are to be compared.
FailureOr<SmallVector<Accumulation>> DecidePass::getAccumulations() {
  ModuleOp module = getOperation();
  if (!accumulate.empty()) {
    FailureOr<Accumulation> given =
        check(module, "accumulate", parseAccumulation(accumulate));
    if (failed(given))
      return failure();
    return SmallVector<Accumulation>{*given};
  }
  auto count = module->getAttrOfType<IntegerAttr>(kMicroBatchesAttr);
  if (!count || count.getInt() == 1)
    return SmallVector<Accumulation>{Accumulation::sharded};
  return SmallVector<Accumulation>{Accumulation::sharded, Accumulation::node,
                                   Accumulation::full};
}

/// A given number, or those that are to be compared.
static SmallVector<int64_t> getChoices(int64_t given,
                                       ArrayRef<int64_t> otherwise) {
  if (given >= 0)
    return {given};
  return SmallVector<int64_t>(otherwise);
}

static void apply(ModuleOp module, const Plan &plan) {
  for (auto [bucket, chosen] :
       llvm::zip(module.getOps<BucketOp>(), plan.solution.buckets))
    decide(bucket, {chosen.residency, chosen.carry, plan.accumulation,
                    bucket.getSharding()});
  setIfAbsent(module, kPrefetchAttr, plan.prefetch);
  setIfAbsent(module, kReductionsAttr, plan.reductions);
}

LogicalResult DecidePass::decideByCost() {
  ModuleOp module = getOperation();
  FailureOr<Cluster> described = getCluster();
  FailureOr<SmallVector<Accumulation>> accumulations = getAccumulations();
  if (failed(described) || failed(accumulations))
    return failure();
  CostModel model(*described);
  MemoryBudget budget;
  budget.device = deviceMemory > 0 ? deviceMemory : described->device.memory;
  budget.host = hostMemory > 0 ? hostMemory : described->host.memory;
  std::vector<Plan> finalists;
  std::string why;
  for (Accumulation accumulation : *accumulations) {
    std::optional<Plan> best;
    ResidencyProblem problem =
        makeResidencyProblem(module, model, budget, accumulation);
    for (int64_t ahead : getChoices(prefetch, {1, 2, 3}))
      for (int64_t atOnce : getChoices(reductions, {1, 2, 3})) {
        problem.prefetch = ahead;
        problem.reductions = atOnce;
        llvm::Expected<ResidencySolution> found = planResidency(problem);
        if (!found)
          why = toString(found.takeError());
        else if (!best || isBetter(found->estimate, best->solution.estimate))
          best = Plan{std::move(*found), accumulation, ahead, atOnce};
      }
    if (!best)
      continue;
    finalists.push_back(*best);
    addUniform(problem, *best, finalists);
  }
  if (finalists.empty())
    return module.emitError("strategy 'auto': ") << why;
  return applyFastest(finalists, model);
}

/// Adds what presets would do, as far as it fits, at the distances of `best`
/// and of presets: the problem is coarser than the schedule, and may err.
void DecidePass::addUniform(ResidencyProblem problem, const Plan &best,
                            std::vector<Plan> &plans) {
  auto add = [&](int64_t ahead, int64_t atOnce, Residency residency) {
    problem.prefetch = prefetch >= 0 ? prefetch : ahead;
    problem.reductions = reductions >= 1 ? reductions : atOnce;
    ResidencySolution solution;
    for (const ResidencyProblem::Bucket &bucket : problem.buckets)
      solution.buckets.push_back({bucket.residency.value_or(residency),
                                  bucket.carry.value_or(residency)});
    solution.estimate = estimate(problem, solution.buckets);
    if (llvm::Error error = solution.verify(problem))
      return llvm::consumeError(std::move(error)); // does not fit
    plans.push_back({std::move(solution), best.accumulation, problem.prefetch,
                     problem.reductions});
  };
  for (Residency residency :
       {Residency::drop, Residency::host, Residency::node, Residency::full}) {
    add(best.prefetch, best.reductions, residency);
    add(kDefaultPrefetch, kDefaultReductions, residency);
  }
}

/// Seconds of a step with the schedule that `plan` leads to.
FailureOr<double> DecidePass::simulate(const Plan &plan,
                                       const CostModel &model) {
  OwningOpRef<ModuleOp> copy(cast<ModuleOp>(getOperation()->clone()));
  apply(*copy, plan);
  PassManager pm(&getContext());
  buildDecided(pm);
  buildScheduled(pm);
  if (failed(pm.run(*copy)))
    return failure();
  return simulateStep(
             makeStepProgram(*copy,
                             [&](Operation *op) { return model.costOf(op); }))
      .seconds;
}

LogicalResult DecidePass::applyFastest(ArrayRef<Plan> plans,
                                       const CostModel &model) {
  const Plan *fastest = nullptr;
  ResidencyEstimate least;
  for (const Plan &plan : plans) {
    FailureOr<double> seconds = simulate(plan, model);
    if (failed(seconds))
      return failure();
    ResidencyEstimate taken = plan.solution.estimate;
    taken.seconds = *seconds;
    if (fastest && !isBetter(taken, least))
      continue;
    fastest = &plan;
    least = taken;
  }
  apply(getOperation(), *fastest);
  return success();
}

void DecidePass::runOnOperation() {
  ModuleOp module = getOperation();
  if (failed(requirePhase(module, Phase::sharded)))
    return signalPassFailure();
  bool decided = !module->hasAttr(kStrategyAttr) ||
                 llvm::any_of(module.getOps<BucketOp>(), [](BucketOp bucket) {
                   return !bucket.getResidency();
                 });
  if (!decided)
    return;
  if (failed(strategy == kAutoStrategy ? decideByCost() : decideByPreset()))
    return signalPassFailure();
  module->setAttr(kStrategyAttr, StringAttr::get(&getContext(), strategy));
  setIfAbsent(module, kPrefetchAttr,
              prefetch < 0 ? kDefaultPrefetch : prefetch);
  setIfAbsent(module, kReductionsAttr,
              reductions < 1 ? kDefaultReductions : reductions);
}
