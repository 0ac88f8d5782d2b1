// SPDX-License-Identifier: Apache-2.0

#include "Driver.h"

#include "fcdp/Conversion/ConstantReader.h"
#include "fcdp/Conversion/Passes.h"
#include "fcdp/Conversion/Plan.h"
#include "fcdp/Driver/Diagnostics.h"
#include "fcdp/Driver/MeasureStep.h"
#include "fcdp/Driver/Progress.h"
#include "fcdp/Driver/StepModule.h"
#include "fcdp/Import/Evaluation.h"
#include "fcdp/Import/Variants.h"
#include "fcdp/Report/Text.h"
#include "fcdp/Support/InputFile.h"
#include "fcdp/Support/Printable.h"
#include "fcdp/Target/ObjectEmission.h"
#include "fcdp/Target/ObjectReading.h"
#include "fcdp/Transforms/Pipeline.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/BinaryFormat/ELF.h"
#include "llvm/Support/Process.h"

using namespace mlir;
using namespace fcdp;

namespace {
/// One compilation. Stages follow each other; errors go to the context's
/// diagnostics.
class Driver {
public:
  Driver(const CompileOptions &options, llvm::raw_ostream &output,
         llvm::raw_ostream &errors)
      : options(options), output(output), errors(errors),
        printer(&context, errors),
        progress("fcdp-compile", errors,
                 llvm::sys::Process::StandardErrIsDisplayed()) {
    context.loadDialect<LLVM::LLVMDialect>();
  }

  LogicalResult run();

private:
  LogicalResult fail(const Twine &message) {
    errors << "error: " << printable(message.str()) << '\n';
    return failure();
  }
  LogicalResult runPasses(llvm::raw_ostream &summary);
  LogicalResult predict(llvm::raw_ostream &stream);
  LogicalResult emit();
  LogicalResult print();
  llvm::Expected<CompiledPlan> readPlan(llvm::StringRef bytes);
  LogicalResult runOnPlan(llvm::StringRef bytes);
  LogicalResult readPrograms();
  LogicalResult runOnStep();

  const CompileOptions &options;
  llvm::raw_ostream &output, &errors;
  MLIRContext context;
  DiagnosticPrinter printer;
  Progress progress;
  OwningOpRef<ModuleOp> module;
};
} // namespace

/// Prints the plan, or the kernels, in the converted module.
LogicalResult Driver::print() {
  if (options.emit == EmitKind::kernels) {
    for (auto kernel : module->getOps<KernelOp>())
      output << *kernel << '\n';
    return success();
  }
  auto global = module->lookupSymbol<LLVM::GlobalOp>("fcdp_plan");
  llvm::Expected<std::unique_ptr<plan::PlanT>> plan = unpackPlan(
      cast<StringAttr>(global.getValueAttr()).getValue(), options.input);
  if (!plan)
    return fail(toString(plan.takeError()));
  output << printPlan(**plan);
  return success();
}

/// Reads a plan as JSON, with its constants from the archive, or both from an
/// object.
llvm::Expected<CompiledPlan> Driver::readPlan(llvm::StringRef bytes) {
  if (bytes.starts_with("{")) {
    auto plan = parsePlan(bytes, options.input);
    if (!plan)
      return plan.takeError();
    ConstantReader reader(
        getArchives(options.archive, options.evaluation,
                    SmallVector<StringRef>(options.variants.begin(),
                                           options.variants.end())));
    llvm::Expected<std::string> constants = readConstants(**plan, reader);
    if (!constants)
      return llvm::createStringError("'" + options.input +
                                     "': " + toString(constants.takeError()));
    return CompiledPlan{std::move(**plan), std::move(*constants)};
  }
  llvm::Expected<ObjectData> object =
      readObject(llvm::MemoryBufferRef(bytes, options.input));
  if (!object)
    return object.takeError();
  if (!options.evaluation.empty() || !options.variants.empty())
    return llvm::createStringError(
        (options.evaluation.empty() ? "'" + options.variants.front() + "'"
                                    : "--eval") +
        ": expected an exported step or MLIR to add it to, got '" +
        options.input + "', which is compiled");
  auto plan = unpackPlan(object->plan, options.input);
  if (!plan)
    return plan.takeError();
  return CompiledPlan{std::move(**plan), std::move(object->constants)};
}

LogicalResult Driver::predict(llvm::raw_ostream &stream) {
  MeshOp mesh = getMesh(*module);
  llvm::Expected<Cluster> cluster =
      loadCluster(options.step.pipeline.cluster, mesh.getNode(),
                  mesh.getLocal(), options.step.pipeline.profile);
  if (!cluster)
    return fail("--cluster: " + toString(cluster.takeError()));
  if (failed(checkSimulable(*module)))
    return failure();
  SimulatedStep step = simulateOn(*module, *cluster);
  step.prediction.bounds = boundOn(*module, *cluster);
  addScenarios(step, *cluster);
  printExposure(step.prediction, stream);
  return success();
}

/// Plans the step and converts it, and prints its figures in between. Passes of
/// one pass manager share what they measure.
LogicalResult Driver::runPasses(llvm::raw_ostream &summary) {
  progress.start("planning the step");
  PassManager pm(&context);
  pm.enableTiming(progress.getTiming());
  buildFcdpPipeline(pm, options.step.pipeline, *getPhase(*module));
  pm.addPass(createMeasureStepPass([&](const StepFacts &facts) {
    printFacts(facts, summary);
    if (!options.step.pipeline.cluster.empty() && failed(predict(summary)))
      return failure();
    // The passes after this one are timed in this stage.
    progress.start("describing the step");
    return success();
  }));
  pm.addPass(createConvertFcdpToLLVMPass({options.archive}));
  return pm.run(*module);
}

LogicalResult Driver::emit() {
  progress.start("writing " + options.output);
  if (llvm::Error error =
          emitObject(*module, options.output, getOutputKind(options.output)))
    return fail(toString(std::move(error)));
  return success();
}

/// Returns whether an input is a plan, as text or in an object.
static bool isPlan(llvm::StringRef bytes) {
  return bytes.starts_with("{") ||
         bytes.starts_with(StringRef(llvm::ELF::ElfMagic, 4));
}

LogicalResult Driver::run() {
  if (options.remarks && failed(printRemarks(context, errors)))
    return fail("--remarks: cannot be printed");
  progress.start("reading " +
                 (options.input.empty() ? options.evaluation : options.input));
  if (options.input.empty())
    return runOnStep();
  // A file that cannot be read here fails again when it is read as a step,
  // which reports the reason.
  auto file = readInputFile(options.input);
  if (file && isPlan((*file)->getBuffer()))
    return runOnPlan((*file)->getBuffer());
  llvm::consumeError(file.takeError());
  return runOnStep();
}

LogicalResult Driver::runOnPlan(llvm::StringRef bytes) {
  llvm::Expected<CompiledPlan> compiled = readPlan(bytes);
  if (!compiled)
    return fail(toString(compiled.takeError()));
  module = ModuleOp::create(UnknownLoc::get(&context));
  if (failed(addPlanGlobals(*module, *compiled)))
    return failure();
  if (!options.output.empty() && failed(emit()))
    return failure();
  return options.emit == EmitKind::summary ? success() : print();
}

/// Reads the step with its variants and its evaluation, or the evaluation
/// alone.
LogicalResult Driver::readPrograms() {
  OwningOpRef<ModuleOp> evaluation;
  if (!options.evaluation.empty() &&
      !(evaluation = readStep(options.evaluation, context)))
    return failure();
  if (options.input.empty()) {
    module = std::move(evaluation);
    return evaluateAlone(*module);
  }
  module = readStep(options.input, context);
  if (!module ||
      failed(checkPastDecisions(*module, options.input, options.step)))
    return failure();
  for (const std::string &path : options.variants) {
    OwningOpRef<ModuleOp> variant = readStep(path, context);
    if (!variant || failed(addVariant(*module, *variant)))
      return failure();
  }
  return evaluation ? addEvaluation(*module, *evaluation) : success();
}

LogicalResult Driver::runOnStep() {
  if (failed(readPrograms()))
    return failure();
  if (llvm::Error error = checkArchives(*module, {{"-o", options.output}}))
    return fail(toString(std::move(error)));
  std::string summary;
  llvm::raw_string_ostream stream(summary);
  if (failed(runPasses(stream)))
    return failure();
  if (!options.output.empty() && failed(emit()))
    return failure();
  if (options.emit != EmitKind::summary)
    return print();
  output << summary;
  return success();
}

LogicalResult fcdp::compile(const CompileOptions &options,
                            llvm::raw_ostream &output,
                            llvm::raw_ostream &errors) {
  return Driver(options, output, errors).run();
}
