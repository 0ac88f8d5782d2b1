// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Driver/SweepRunner.h"

#include "fcdp/Driver/StepModule.h"
#include "fcdp/Report/StepPrediction.h"
#include "fcdp/Transforms/Options/Strategy.h"
#include "mlir/IR/Diagnostics.h"

using namespace mlir;
using namespace fcdp;

namespace {
class SweepRunner {
public:
  SweepRunner(llvm::ArrayRef<SweepAxis> axes, const StepOptions &options,
              const Cluster &cluster, Progress &progress)
      : axes(axes), options(options), cluster(cluster), progress(progress) {}

  void run(size_t input, ModuleOp step);

  Sweep sweep;

private:
  const SweepAxis *find(SweepKey key) const;
  /// Returns whether an option limits the device memory of all points.
  bool isMemoryGiven() const {
    return options.pipeline.deviceMemory > 0 &&
           find(SweepKey::memory) == axes.end();
  }
  std::vector<double> getValues(SweepKey key, double otherwise) const;
  std::vector<std::string> getNames(SweepKey key, StringRef otherwise) const;
  void runShape(SweepPoint point);
  void runOnce(const SweepPoint &point);
  void runEach(const SweepPoint &point);
  SweepResult &add(const SweepPoint &point, const PlannedStep *plan,
                   const StepPrediction *prediction);
  Cluster getCluster(const SweepPoint &point) const;
  /// Returns the bytes of a device that a plan may use at `point`.
  int64_t getDeviceBudget(const SweepPoint &point) const;
  StepOptions getOptions(const SweepPoint &point) const;
  /// Returns whether there can be such a cluster; sets `failure` if not.
  bool canBe(const SweepPoint &point);
  /// Returns none, with `failure` set, if there is no plan.
  std::optional<PlannedStep> plan(const SweepPoint &point);
  StepPrediction simulate(const PlannedStep &plan, const SweepPoint &point);
  /// Does the same with the scenarios of the cluster.
  StepPrediction predict(const PlannedStep &plan, const SweepPoint &point);
  void findHidden(const SweepPoint &point, const PlannedStep &plan);

  llvm::ArrayRef<SweepAxis> axes;
  const StepOptions &options;
  const Cluster &cluster;
  Progress &progress;
  ModuleOp step;
  std::vector<double> bandwidths, memories;
  std::string failure;
};
} // namespace

const SweepAxis *SweepRunner::find(SweepKey key) const {
  return llvm::find_if(axes,
                       [&](const SweepAxis &axis) { return axis.key == key; });
}

std::vector<double> SweepRunner::getValues(SweepKey key,
                                           double otherwise) const {
  const SweepAxis *axis = find(key);
  return axis == axes.end() ? std::vector<double>{otherwise} : axis->values;
}

std::vector<std::string> SweepRunner::getNames(SweepKey key,
                                               StringRef otherwise) const {
  const SweepAxis *axis = find(key);
  return axis == axes.end() ? std::vector<std::string>{otherwise.str()}
                            : axis->names;
}

Cluster SweepRunner::getCluster(const SweepPoint &point) const {
  Cluster changed = cluster;
  changed.nodes = point.nodes;
  changed.ranksPerNode = point.ranks;
  changed.setInterBandwidth(point.bandwidth);
  if (!isMemoryGiven())
    changed.device.memory = point.memory;
  return changed;
}

int64_t SweepRunner::getDeviceBudget(const SweepPoint &point) const {
  return isMemoryGiven() ? options.pipeline.deviceMemory
                         : getCluster(point).getDeviceCapacity().usable;
}

StepOptions SweepRunner::getOptions(const SweepPoint &point) const {
  StepOptions asked = options;
  PipelineOptions &pipeline = asked.pipeline;
  if (point.options != kNoOptions)
    llvm::cantFail(applySettings(point.options, asked));
  pipeline.strategy = point.strategy;
  pipeline.nodes = point.nodes;
  pipeline.ranksPerNode = point.ranks;
  pipeline.microBatches = point.microBatches;
  pipeline.deviceMemory = getDeviceBudget(point);
  for (auto [key, id] :
       {std::pair(SweepKey::strategies, option::Strategy),
        std::pair(SweepKey::nodes, option::Nodes),
        std::pair(SweepKey::ranks, option::RanksPerNode),
        std::pair(SweepKey::microBatches, option::MicroBatches)})
    if (find(key) != axes.end())
      asked.given.insert(id);
  return asked;
}

//===----------------------------------------------------------------------===//
// Plans
//===----------------------------------------------------------------------===//

bool SweepRunner::canBe(const SweepPoint &point) {
  llvm::Error error = getCluster(point).check();
  if (!error)
    return true;
  failure = toString(std::move(error));
  return false;
}

std::optional<PlannedStep> SweepRunner::plan(const SweepPoint &point) {
  failure.clear();
  // One plan that is not possible does not end the sweep.
  ScopedDiagnosticHandler handler(
      step.getContext(), [&](Diagnostic &diagnostic) {
        if (diagnostic.getSeverity() != DiagnosticSeverity::Error)
          return LogicalResult(mlir::failure());
        if (failure.empty())
          failure = diagnostic.str();
        return success();
      });
  if (!canBe(point))
    return std::nullopt;
  StepOptions asked = getOptions(point);
  if (failed(checkPastDecisions(step, sweep.inputs[point.input], asked)))
    return std::nullopt;
  std::optional<PlannedStep> planned =
      planCopy(step, withoutBudget(asked.pipeline), progress.getTiming(),
               getCluster(point));
  if (planned && failed(checkSimulable(*planned->module)))
    return std::nullopt;
  return planned;
}

StepPrediction SweepRunner::simulate(const PlannedStep &plan,
                                     const SweepPoint &point) {
  TimingScope timing = progress.getTiming().nest("simulation");
  return simulateOn(*plan.module, getCluster(point)).prediction;
}

StepPrediction SweepRunner::predict(const PlannedStep &plan,
                                    const SweepPoint &point) {
  TimingScope timing = progress.getTiming().nest("simulation");
  Cluster changed = getCluster(point);
  SimulatedStep step = simulateOn(*plan.module, changed);
  addScenarios(step, changed);
  return step.prediction;
}

//===----------------------------------------------------------------------===//
// Points
//===----------------------------------------------------------------------===//

SweepResult &SweepRunner::add(const SweepPoint &point, const PlannedStep *plan,
                              const StepPrediction *prediction) {
  SweepResult &result = sweep.results.emplace_back();
  result.point = point;
  if (!plan) {
    result.failure = failure;
    return result;
  }
  result.seconds = prediction->times.seconds;
  result.range = prediction->getRange();
  result.scenarios = *prediction->scenarios;
  result.spread = prediction->spread;
  result.tokensPerSecond = prediction->getTokensPerSecond();
  result.mfu = prediction->getMfu();
  result.exposedInter = prediction->getExposedInter();
  result.tokens = prediction->tokens.perMicroBatch;
  result.sequence = prediction->tokens.perSequence;
  result.elements = plan->facts.storage.elements;
  result.device = plan->facts.device.total();
  result.host = plan->facts.host;
  int64_t host = options.pipeline.hostMemory > 0 ? options.pipeline.hostMemory
                                                 : cluster.host.memory;
  result.fits = result.device <= getDeviceBudget(point) && result.host <= host;
  return result;
}

/// Runs all bandwidths and memories with one plan.
void SweepRunner::runOnce(const SweepPoint &shape) {
  SweepPoint point = shape;
  point.bandwidth = bandwidths.front();
  point.memory = memories.front();
  std::optional<PlannedStep> made = plan(point);
  for (double bandwidth : bandwidths) {
    point.bandwidth = bandwidth;
    StepPrediction prediction;
    if (made)
      prediction = predict(*made, point);
    for (double memory : memories) {
      point.memory = memory;
      add(point, made ? &*made : nullptr, &prediction);
    }
  }
  if (made && bandwidths.size() > 1)
    findHidden(point, *made);
}

/// Runs each bandwidth and memory with its own plan.
void SweepRunner::runEach(const SweepPoint &shape) {
  SweepPoint point = shape;
  for (double memory : memories) {
    point.memory = memory;
    size_t first = sweep.results.size();
    for (double bandwidth : bandwidths) {
      point.bandwidth = bandwidth;
      std::optional<PlannedStep> made = plan(point);
      StepPrediction prediction;
      if (made)
        prediction = predict(*made, point);
      add(point, made ? &*made : nullptr, &prediction);
    }
    if (bandwidths.size() > 1)
      sweep.hidden.push_back(
          {point,
           findHiddenFrom(llvm::ArrayRef(sweep.results).drop_front(first)),
           /*isOfPoints=*/true});
  }
}

void SweepRunner::findHidden(const SweepPoint &at, const PlannedStep &plan) {
  SweepPoint point = at;
  auto getShare = [&](double bandwidth) {
    point.bandwidth = bandwidth;
    StepPrediction prediction = simulate(plan, point);
    double seconds = prediction.times.seconds;
    return seconds > 0 ? prediction.getExposedInter() / seconds : 0;
  };
  sweep.hidden.push_back(
      {at, findHiddenFrom(bandwidths.front(), bandwidths.back(), getShare)});
}

void SweepRunner::runShape(SweepPoint point) {
  progress.start("planning " + sweep.inputs[point.input] + " with strategy " +
                 point.strategy +
                 (point.options == kNoOptions ? "" : ", " + point.options) +
                 " on " + std::to_string(point.nodes) + " nodes of " +
                 std::to_string(point.ranks) + " ranks");
  if (isPlannedForCluster(getOptions(point).pipeline))
    runEach(point);
  else
    runOnce(point);
}

/// Returns the options, in which decisions of `module` replace options that are
/// not given.
static PipelineOptions takeDecided(ModuleOp module,
                                   const StepOptions &options) {
  PipelineOptions pipeline = options.pipeline;
  if (MeshOp mesh = getMesh(module)) {
    if (!options.isGiven(option::Nodes))
      pipeline.nodes = mesh.getNode();
    if (!options.isGiven(option::RanksPerNode))
      pipeline.ranksPerNode = mesh.getLocal();
    if (!options.isGiven(option::MicroBatches))
      pipeline.microBatches = getMicroBatches(module);
  }
  std::optional<StringRef> strategy = getStrategy(module);
  if (strategy && !options.isGiven(option::Strategy))
    pipeline.strategy = *strategy;
  return pipeline;
}

void SweepRunner::run(size_t input, ModuleOp module) {
  step = module;
  PipelineOptions pipeline = takeDecided(module, options);
  bandwidths =
      getValues(SweepKey::bandwidth, cluster.links[LinkId::Inter].bandwidth);
  memories = getValues(SweepKey::memory, pipeline.deviceMemory > 0
                                             ? pipeline.deviceMemory
                                             : cluster.device.memory);
  for (const std::string &strategy :
       getNames(SweepKey::strategies, pipeline.strategy))
    for (const std::string &settings : getNames(SweepKey::options, kNoOptions))
      for (double nodes : getValues(SweepKey::nodes, pipeline.nodes))
        for (double ranks : getValues(SweepKey::ranks, pipeline.ranksPerNode))
          for (double count :
               getValues(SweepKey::microBatches, pipeline.microBatches))
            runShape({input, strategy, settings, int64_t(nodes), int64_t(ranks),
                      int64_t(count), 0, 0});
}

/// Returns the profile without collectives between nodes, which were measured
/// at one bandwidth.
static std::shared_ptr<const Profile> withoutNetwork(const Profile &profile) {
  auto kept = std::make_shared<Profile>(profile);
  for (StringRef kind : getCollectiveNames())
    for (StringRef axis : {"node", "world"})
      kept->operations.erase((kind + " " + axis).str());
  return kept;
}

FailureOr<Sweep> fcdp::runSweep(llvm::ArrayRef<std::string> inputs,
                                llvm::ArrayRef<SweepAxis> axes,
                                const StepOptions &options,
                                MLIRContext &context, Progress &progress) {
  llvm::Expected<Cluster> cluster = loadCluster(options.pipeline.cluster);
  if (!cluster)
    return emitError(UnknownLoc::get(&context), "--cluster: ")
           << toString(cluster.takeError());
  if (!options.pipeline.profile.empty()) {
    auto profile = loadProfile(options.pipeline.profile);
    if (!profile)
      return emitError(UnknownLoc::get(&context), "--profile: ")
             << toString(profile.takeError());
    bool isSwept = llvm::any_of(axes, [](const SweepAxis &axis) {
      return axis.key == SweepKey::bandwidth;
    });
    cluster->setProfile(isSwept ? withoutNetwork(**profile) : *profile);
  }
  SweepRunner runner(axes, options, *cluster, progress);
  runner.sweep.inputs = inputs.vec();
  runner.sweep.axes = axes.vec();
  for (auto [i, input] : llvm::enumerate(inputs)) {
    progress.start("reading " + input);
    OwningOpRef<ModuleOp> step = readStep(input, context);
    if (!step)
      return failure();
    runner.run(i, *step);
  }
  Sweep sweep = std::move(runner.sweep);
  compareResults(sweep);
  return sweep;
}
