// SPDX-License-Identifier: Apache-2.0
//
// Makes descriptions of clusters from measurements of other programs.

#include "fcdp/Cluster/TableImport.h"
#include "fcdp/Support/InputFile.h"
#include "fcdp/Support/OutputFile.h"
#include "fcdp/Support/Printable.h"
#include "fcdp/Support/ToolMain.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/Path.h"

#include <cstdlib>

using namespace fcdp;
namespace cl = llvm::cl;

static constexpr char kOverview[] =
    R"(makes descriptions of clusters from measurements

docs/cluster.md says which programs to run, and with which options.

Example:
  fcdp-cluster import --into=h100 -o ours.yaml gather.log reduce.log
)";

namespace {
/// The options, made when the command line is parsed.
struct CommandLine {
  cl::OptionCategory category{"fcdp-cluster options"};
  cl::SubCommand import{
      "import", "prints the bus bandwidths in logs of nccl-tests "
                "(all_gather_perf, reduce_scatter_perf, all_reduce_perf) as "
                "the key 'collectives' of a description"};
  cl::list<std::string> logs{cl::Positional, cl::desc("LOG..."),
                             cl::sub(import), cl::cat(category)};
  cl::opt<std::string> into{
      "into",
      cl::desc("prints this whole description with the bandwidths in it; the "
               "file itself stays as it is"),
      cl::value_desc("FILE-OR-PRESET"), cl::sub(import), cl::cat(category)};
  cl::opt<std::string> output{
      "o",
      cl::desc("writes to this file, completely or not at all; default: "
               "the standard output"),
      cl::value_desc("FILE"),
      cl::init("-"),
      cl::sub(import),
      cl::cat(category)};
  cl::opt<std::string> collective{
      "collective",
      cl::desc("says what the logs measure, if neither their lines nor their "
               "names do: all_gather, reduce_scatter or all_reduce"),
      cl::value_desc("NAME"), cl::sub(import), cl::cat(category)};
};
} // namespace

static llvm::Expected<std::vector<NcclTest>>
readLogs(llvm::ArrayRef<std::string> files,
         std::optional<NcclProgram> program) {
  std::vector<NcclTest> tests;
  for (const std::string &file : files) {
    auto text = readInputFile(file);
    if (!text)
      return llvm::createStringError("cannot read '" + file +
                                     "': " + toString(text.takeError()));
    auto found = parseNcclLog({(*text)->getBuffer(), file}, program);
    if (!found)
      return found.takeError();
    llvm::append_range(tests, *found);
  }
  return tests;
}

/// Returns the text of the preset of that name or, if there is none, of the
/// file.
static llvm::Expected<std::string> readDescription(llvm::StringRef name) {
  for (const ClusterPreset &preset : getClusterPresets())
    if (preset.name == name)
      return preset.yaml.str();
  auto text = readInputFile(name);
  if (!text)
    return llvm::createStringError("cannot read '" + name +
                                   "': " + toString(text.takeError()));
  return (*text)->getBuffer().str();
}

static llvm::Expected<std::string> convert(const CommandLine &options) {
  std::optional<NcclProgram> program;
  if (!options.collective.empty()) {
    program = parseNcclProgram(options.collective);
    if (!program)
      return llvm::createStringError(
          "--collective: expected all_gather, reduce_scatter or all_reduce, "
          "got '" +
          options.collective + "'");
  }
  auto tests = readLogs(options.logs, program);
  if (!tests)
    return tests.takeError();
  auto imported = tabulate(*tests);
  if (!imported)
    return imported.takeError();
  std::string source =
      "nccl-tests: " +
      llvm::join(llvm::map_range(options.logs,
                                 [](llvm::StringRef file) {
                                   return llvm::sys::path::filename(file).str();
                                 }),
                 ", ");
  if (options.into.empty())
    return toYaml(*imported, source);
  auto description = readDescription(options.into);
  if (!description)
    return description.takeError();
  return mergeTables({*description, options.into}, std::move(*imported),
                     source);
}

static llvm::Error run(const CommandLine &options) {
  if (!options.import)
    return llvm::createStringError(
        "expected a command: fcdp-cluster import LOG...");
  if (options.logs.empty())
    return llvm::createStringError("expected logs of nccl-tests");
  std::vector<NamedFile> inputs;
  for (const std::string &log : options.logs)
    inputs.push_back({"the log", log});
  if (!options.into.empty())
    inputs.push_back({"--into", options.into});
  if (llvm::Error error = checkOutputs({{"-o", options.output}}, inputs))
    return error;
  auto text = convert(options);
  if (!text)
    return text.takeError();
  return printToFile(options.output,
                     [&](llvm::raw_ostream &stream) { stream << *text; });
}

static int runCommand(int argc, char **argv) {
  CommandLine options;
  cl::HideUnrelatedOptions(options.category);
  cl::ParseCommandLineOptions(argc, argv, kOverview);
  if (llvm::Error error = run(options)) {
    llvm::errs() << "error: " << fcdp::printable(toString(std::move(error)))
                 << '\n';
    return EXIT_FAILURE;
  }
  return EXIT_SUCCESS;
}

int main(int argc, char **argv) {
  llvm::InitLLVM initLLVM(argc, argv);
  return runToolMain([&] { return runCommand(argc, argv); });
}
