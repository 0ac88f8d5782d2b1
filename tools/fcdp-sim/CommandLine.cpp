// SPDX-License-Identifier: Apache-2.0

#include "CommandLine.h"

#include "fcdp/Support/OutputFile.h"
#include "fcdp/Transforms/Options/Strategy.h"

using namespace fcdp;
namespace cl = llvm::cl;

static constexpr char kOverview[] =
    R"(predicts how a training step runs on a described cluster

IN is an archive that fcdp.export wrote (.pt2), or a step as MLIR text at any
phase. It is planned as fcdp-compile plans it and run as discrete events:
streams that share links. Nothing is executed and no weights are read.
docs/simulator.md says what each number means.

Example:
  fcdp-sim step.pt2 --cluster=h100 --compare=zero3,fcdp
  fcdp-sim step.pt2 --cluster=h100 --sweep=bandwidth=1e9:4e11:20
    --sweep=strategies=zero3,hpz,fcdp
  fcdp-sim step.pt2 --cluster=h100 --compare=zero3,fcdp --report=report.html
)";

namespace {
/// The options, made when the command line is parsed.
struct CommandLine {
  cl::OptionCategory category{"fcdp-sim options"};
  cl::list<std::string> inputs{cl::Positional, cl::desc("IN..."),
                               cl::cat(category)};
  StepCommandLine step{category};
  cl::list<std::string> compare{
      "compare", cl::CommaSeparated,
      cl::desc("plans the step with each of these strategies, in place of "
               "--strategy"),
      cl::value_desc("S,S..."), cl::cat(category)};
  cl::opt<bool> json{"json",
                     cl::desc("prints one JSON object in place of text"),
                     cl::cat(category)};
  cl::opt<std::string> trace{
      "trace",
      cl::desc("writes one step as trace events, for Perfetto or "
               "chrome://tracing"),
      cl::value_desc("FILE"), cl::cat(category)};
  cl::opt<std::string> measured{
      "measured",
      cl::desc("shows a step that fcdp-run --trace has recorded beside the "
               "predicted one; give the options that it was compiled with"),
      cl::value_desc("FILE"), cl::cat(category)};
  cl::opt<std::string> report{
      "report",
      cl::desc("writes one HTML file that shows all steps and strategies side "
               "by side; it needs no network"),
      cl::value_desc("FILE"), cl::cat(category)};
  cl::list<std::string> sweep{
      "sweep",
      cl::desc(
          "simulates at COUNT (default 10) points of equal ratios from LO to "
          "HI, or at the values listed; KEY is bandwidth (between nodes, "
          "bytes/s), memory (of a device, bytes), nodes, ranks (a node), "
          "micro-batches, strategies (listed) or options (listed: "
          "NAME=VALUE[+NAME=VALUE]..., or none); several make a grid"),
      cl::value_desc("KEY=LO:HI[:COUNT]"), cl::cat(category)};
  cl::list<std::string> fit{
      "fit",
      cl::CommaSeparated,
      cl::ValueOptional,
      cl::desc("tells which of the inputs, such as exports of one model for "
               "several batches and sequences, fit the cluster, and the "
               "fastest: with each of these settings of options, "
               "NAME=VALUE[+NAME=VALUE]... or none (default: those that save "
               "device memory); plans with the strategy 'auto' unless "
               "--strategy is given"),
      cl::value_desc("SETTINGS,..."),
      cl::cat(category)};
};
} // namespace

static llvm::Error check(llvm::StringRef option,
                         llvm::ArrayRef<std::string> strategies) {
  for (const std::string &name : strategies) {
    if (name == kAutoStrategy)
      continue;
    if (llvm::Expected<Strategy> strategy = parseStrategy(name); !strategy)
      return llvm::createStringError("--" + option + ": " +
                                     toString(strategy.takeError()));
  }
  return llvm::Error::success();
}

/// Options that a sweep varies by other keys, or that are for all points.
static constexpr option::OptionId kNotSettings[] = {
    option::Strategy,     option::Nodes,        option::RanksPerNode,
    option::MicroBatches, option::DeviceMemory, option::HostMemory,
    option::ClusterFile,  option::ProfileFile};

static llvm::Error checkSettings(llvm::StringRef option,
                                 llvm::ArrayRef<std::string> names) {
  for (const std::string &name : names) {
    if (name == kNoOptions)
      continue;
    StepOptions options;
    if (llvm::Error error = applySettings(name, options))
      return llvm::createStringError("--" + option + ": " +
                                     toString(std::move(error)));
    for (option::OptionId id : kNotSettings)
      if (options.isGiven(id))
        return llvm::createStringError(
            "--" + option + ": expected no setting of '" +
            getPipelineOption(id).name + "', got '" + name + "'");
  }
  return llvm::Error::success();
}

/// Settings that save device memory.
static constexpr const char *kSavings[] = {
    kNoOptions.data(),
    "loss-chunk=auto",
    "remat=unit",
    "remat=unit+loss-chunk=auto",
    "remat=unit+loss-chunk=auto+activations=auto",
    "remat=unit+loss-chunk=auto+states=host",
    "remat=unit+loss-chunk=auto+states=auto+activations=auto",
    "remat=unit+loss-chunk=auto+frozen=nf4"};

/// Returns the axis of --fit.
static llvm::Expected<SweepAxis> makeFit(llvm::ArrayRef<std::string> given) {
  SweepAxis axis{SweepKey::options, {}, {}};
  for (const std::string &name : given)
    if (!name.empty())
      axis.names.push_back(name);
  if (axis.names.empty())
    axis.names.assign(std::begin(kSavings), std::end(kSavings));
  if (llvm::Error error = checkSettings("fit", axis.names))
    return std::move(error);
  return axis;
}

static llvm::Expected<std::vector<SweepAxis>>
parseSweep(llvm::ArrayRef<std::string> texts) {
  std::vector<SweepAxis> axes;
  for (llvm::StringRef text : texts) {
    llvm::Expected<SweepAxis> axis = parseSweepAxis(text);
    if (!axis)
      return llvm::createStringError("--sweep: " + toString(axis.takeError()));
    llvm::Error error =
        axis->key == SweepKey::strategies ? check("sweep", axis->names)
        : axis->key == SweepKey::options  ? checkSettings("sweep", axis->names)
                                          : llvm::Error::success();
    if (error)
      return std::move(error);
    if (llvm::any_of(axes, [&](const SweepAxis &other) {
          return other.key == axis->key;
        }))
      return llvm::createStringError("--sweep: expected " +
                                     stringifySweepKey(axis->key) + " once");
    axes.push_back(std::move(*axis));
  }
  return axes;
}

llvm::Expected<SimulateOptions> fcdp::parseCommandLine(int argc, char **argv) {
  CommandLine line;
  if (llvm::Error error =
          parseCommandLine(argc, argv, line.category, kOverview))
    return error;
  if (line.inputs.empty())
    return llvm::createStringError("expected an input file; see --help");
  llvm::Expected<StepOptions> step = line.step.take();
  if (!step)
    return step.takeError();
  if (!step->isGiven(option::ClusterFile))
    return llvm::createStringError(
        "--cluster: expected the cluster that the step will run on, a file or "
        "the name of a preset");
  if (llvm::Error error = check("compare", line.compare))
    return error;
  if (!line.compare.empty() && step->isGiven(option::Strategy))
    return llvm::createStringError(
        "expected --strategy or --compare, got both");
  llvm::Expected<std::vector<SweepAxis>> sweep = parseSweep(line.sweep);
  if (!sweep)
    return sweep.takeError();
  if (!sweep->empty() && !(line.compare.empty() && line.trace.empty() &&
                           line.report.empty() && line.measured.empty()))
    return llvm::createStringError(
        "--sweep: expected neither --compare (sweep strategies=... instead), "
        "--trace, --report nor --measured");
  bool fits = line.fit.getNumOccurrences() > 0;
  if (fits) {
    if (!sweep->empty() || !line.compare.empty() || !line.trace.empty() ||
        !line.report.empty() || !line.measured.empty())
      return llvm::createStringError(
          "--fit: expected neither --sweep, --compare, --trace, --report nor "
          "--measured");
    llvm::Expected<SweepAxis> axis = makeFit(line.fit);
    if (!axis)
      return axis.takeError();
    sweep->push_back(std::move(*axis));
    if (!step->isGiven(option::Strategy))
      step->pipeline.strategy = kAutoStrategy.str();
  }
  SimulateOptions options{line.inputs, line.compare,      std::move(*step),
                          line.json,   line.trace,        line.measured,
                          line.report, std::move(*sweep), fits};
  if (options.strategies.empty())
    options.strategies = {options.step.pipeline.strategy};
  bool isOne = options.inputs.size() * options.strategies.size() == 1;
  for (auto [name, file] : {std::pair("--trace", options.trace),
                            std::pair("--measured", options.measured)})
    if (!file.empty() && !isOne)
      return llvm::createStringError(llvm::Twine(name) +
                                     ": expected one input and one strategy");
  std::vector<NamedFile> read = {{"--cluster", options.step.pipeline.cluster},
                                 {"--profile", options.step.pipeline.profile},
                                 {"--measured", options.measured}};
  for (const std::string &input : options.inputs)
    read.push_back({"IN", input});
  if (llvm::Error error = checkOutputs(
          {{"--trace", options.trace}, {"--report", options.report}}, read))
    return std::move(error);
  // A step that is already planned must have the requested strategy.
  if (!line.compare.empty())
    options.step.given.insert(option::Strategy);
  return options;
}
