// SPDX-License-Identifier: Apache-2.0

#include "Driver.h"

#include "fcdp/Driver/Diagnostics.h"
#include "fcdp/Driver/Progress.h"
#include "fcdp/Driver/StepModule.h"
#include "fcdp/Driver/SweepRunner.h"
#include "fcdp/Report/Comparison.h"
#include "fcdp/Report/FitOutput.h"
#include "fcdp/Report/Json.h"
#include "fcdp/Report/MeasuredStep.h"
#include "fcdp/Report/Page.h"
#include "fcdp/Report/SweepOutput.h"
#include "fcdp/Report/Text.h"
#include "fcdp/Report/Trace.h"
#include "fcdp/Support/OutputFile.h"
#include "fcdp/Support/Printable.h"
#include "llvm/Support/Process.h"

using namespace mlir;
using namespace fcdp;

namespace {
/// One call of the tool.
class Driver {
public:
  Driver(const SimulateOptions &options, llvm::raw_ostream &output,
         llvm::raw_ostream &errors)
      : options(options), output(output), errors(errors),
        printer(&context, errors),
        progress("fcdp-sim", errors,
                 llvm::sys::Process::StandardErrIsDisplayed()) {}

  LogicalResult run();

private:
  LogicalResult fail(const Twine &message) {
    errors << "error: " << printable(message.str()) << '\n';
    return failure();
  }
  LogicalResult simulateAll();
  LogicalResult sweep();
  LogicalResult simulate(StringRef input, ModuleOp step, StringRef strategy);
  /// Returns whether timelines of steps are needed.
  bool isLaidOut() const {
    return !options.trace.empty() || !options.report.empty();
  }
  LogicalResult addStep(const std::string &name, const PlannedStep &planned,
                        const SimulatedStep &simulated, const Cluster &cluster,
                        MemoryCapacity capacity);
  LogicalResult addMeasured(const PlannedStep &planned, const Cluster &cluster,
                            const StepPrediction &predicted,
                            MemoryCapacity capacity);
  LogicalResult writeTraceOf(ModuleOp planned, const SimulatedStep &simulated);
  LogicalResult write(StringRef name,
                      llvm::function_ref<void(llvm::raw_ostream &)> print);
  void printText();
  void printJson();

  const SimulateOptions &options;
  llvm::raw_ostream &output, &errors;
  MLIRContext context;
  DiagnosticPrinter printer;
  Progress progress;
  std::vector<PageStep> steps;
};
} // namespace

/// Returns the given limits, or else the cluster's capacity.
static MemoryCapacity getCapacity(const PipelineOptions &options,
                                  const Cluster &cluster) {
  return {options.deviceMemory > 0 ? DeviceCapacity{options.deviceMemory, {}}
                                   : cluster.getDeviceCapacity(),
          options.hostMemory > 0 ? options.hostMemory : cluster.host.memory};
}

LogicalResult Driver::simulate(StringRef input, ModuleOp step,
                               StringRef strategy) {
  StepOptions asked = options.step;
  asked.pipeline.strategy = strategy;
  if (failed(checkPastDecisions(step, input, asked)))
    return failure();
  progress.start("planning " + input.str() + " with strategy " +
                 strategy.str());
  std::optional<PlannedStep> planned =
      planCopy(step, withoutBudget(asked.pipeline), progress.getTiming());
  if (!planned || failed(checkSimulable(*planned->module)))
    return failure();
  MeshOp mesh = getMesh(*planned->module);
  llvm::Expected<Cluster> cluster =
      loadCluster(asked.pipeline.cluster, mesh.getNode(), mesh.getLocal(),
                  asked.pipeline.profile);
  if (!cluster)
    return fail("--cluster: " + toString(cluster.takeError()));
  progress.start("simulating " + input.str() + " with strategy " +
                 strategy.str());
  SimulatedStep simulated = simulateOn(*planned->module, *cluster, isLaidOut());
  simulated.prediction.bounds = boundOn(*planned->module, *cluster);
  addScenarios(simulated, *cluster);
  MemoryCapacity capacity = getCapacity(asked.pipeline, *cluster);
  if (failed(addStep(input.str(), *planned, simulated, *cluster, capacity)) ||
      failed(writeTraceOf(*planned->module, simulated)))
    return failure();
  if (options.measured.empty())
    return success();
  return addMeasured(*planned, *cluster, simulated.prediction, capacity);
}

LogicalResult Driver::addStep(const std::string &name,
                              const PlannedStep &planned,
                              const SimulatedStep &simulated,
                              const Cluster &cluster, MemoryCapacity capacity) {
  steps.push_back({makeReport(name, *planned.module, planned.facts,
                              simulated.prediction, cluster, capacity),
                   ""});
  if (options.report.empty())
    return success();
  FailureOr<Timeline> timeline = makeTimeline(*planned.module, simulated);
  if (failed(timeline))
    return failure();
  steps.back().timeline = describeTimeline(*timeline);
  return success();
}

LogicalResult Driver::addMeasured(const PlannedStep &planned,
                                  const Cluster &cluster,
                                  const StepPrediction &predicted,
                                  MemoryCapacity capacity) {
  llvm::Expected<MeasuredTrace> trace = loadTrace(options.measured);
  if (!trace)
    return fail("--measured: " + toString(trace.takeError()));
  llvm::Expected<SimulatedStep> measured =
      tellMeasured(*planned.module, *trace, cluster);
  if (!measured)
    return fail("--measured: " + toString(measured.takeError()));
  measured->prediction.bounds = predicted.bounds;
  if (failed(addStep("measured in " + options.measured, planned, *measured,
                     cluster, capacity)))
    return failure();
  steps.back().report.spread = getSpread(*trace);
  // Counted figures replace planned ones.
  StepFacts &facts = steps.back().report.facts;
  facts.step = trace->bytes;
  facts.host = trace->hostBytes;
  DeviceMemory &device = facts.device;
  device.arena.bytes = std::max<int64_t>(0, trace->deviceBytes - device.inputs);
  return success();
}

LogicalResult
Driver::write(StringRef name,
              llvm::function_ref<void(llvm::raw_ostream &)> print) {
  progress.start("writing " + name.str());
  if (llvm::Error error = printToFile(name, print))
    return fail(toString(std::move(error)));
  return success();
}

LogicalResult Driver::writeTraceOf(ModuleOp planned,
                                   const SimulatedStep &simulated) {
  if (options.trace.empty())
    return success();
  FailureOr<Timeline> timeline = makeTimeline(planned, simulated);
  if (failed(timeline))
    return failure();
  return write(options.trace, [&](llvm::raw_ostream &stream) {
    writeTrace(*timeline, stream);
  });
}

LogicalResult Driver::simulateAll() {
  for (const std::string &input : options.inputs) {
    progress.start("reading " + input);
    OwningOpRef<ModuleOp> step = readStep(input, context);
    if (!step)
      return failure();
    if (llvm::Error error = checkArchives(
            *step, {{"--trace", options.trace}, {"--report", options.report}}))
      return fail(toString(std::move(error)));
    for (const std::string &strategy : options.strategies)
      if (failed(simulate(input, *step, strategy)))
        return failure();
  }
  std::vector<StepReport *> reports;
  for (PageStep &step : steps)
    reports.push_back(&step.report);
  compareReports(reports);
  return success();
}

void Driver::printText() {
  for (const auto &[report, timeline] : steps) {
    if (steps.size() > 1)
      output << (&report == &steps.front().report ? "" : "\n") << report.input
             << ", strategy " << report.facts.strategy << '\n';
    printReport(report, output);
  }
  std::vector<const StepReport *> reports;
  for (const PageStep &step : steps)
    reports.push_back(&step.report);
  printComparisons(reports, output);
}

void Driver::printJson() {
  llvm::json::OStream json(output, /*IndentSize=*/1);
  json.object([&] {
    json.attributeArray("steps", [&] {
      for (const PageStep &step : steps)
        json.object([&] { writeReport(step.report, json); });
    });
  });
  output << '\n';
}

LogicalResult Driver::sweep() {
  FailureOr<Sweep> result =
      runSweep(options.inputs, options.sweep, options.step, context, progress);
  if (failed(result))
    return failure();
  if (!options.json) {
    options.fit ? printFitTable(*result, output) : printSweep(*result, output);
    return success();
  }
  llvm::json::OStream json(output, /*IndentSize=*/1);
  json.object([&] {
    json.attributeObject("sweep", [&] { writeSweep(*result, json); });
  });
  output << '\n';
  return success();
}

LogicalResult Driver::run() {
  if (!options.sweep.empty())
    return sweep();
  if (failed(simulateAll()))
    return failure();
  options.json ? printJson() : printText();
  if (options.report.empty())
    return success();
  return write(options.report,
               [&](llvm::raw_ostream &stream) { writePage(steps, stream); });
}

LogicalResult fcdp::simulate(const SimulateOptions &options,
                             llvm::raw_ostream &output,
                             llvm::raw_ostream &errors) {
  return Driver(options, output, errors).run();
}
