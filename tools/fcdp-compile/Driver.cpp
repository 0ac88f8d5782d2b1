// SPDX-License-Identifier: Apache-2.0

#include "Driver.h"

#include "fcdp/Conversion/Passes.h"
#include "fcdp/Driver/Diagnostics.h"
#include "fcdp/Driver/Progress.h"
#include "fcdp/Driver/StepModule.h"
#include "fcdp/Report/Text.h"
#include "fcdp/Target/ObjectEmission.h"
#include "mlir/Pass/PassManager.h"
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
    errors << "error: " << message << '\n';
    return failure();
  }
  LogicalResult runPasses();
  LogicalResult predict(llvm::raw_ostream &stream);
  LogicalResult convert();
  LogicalResult emit();
  void printManifest();

  const CompileOptions &options;
  llvm::raw_ostream &output, &errors;
  MLIRContext context;
  DiagnosticPrinter printer;
  Progress progress;
  OwningOpRef<ModuleOp> module;
};
} // namespace

LogicalResult Driver::runPasses() {
  progress.start("planning the step");
  PassManager pm(&context);
  buildFcdpPipeline(pm, options.step.pipeline, *getPhase(*module));
  return pm.run(*module);
}

void Driver::printManifest() {
  auto global = module->lookupSymbol<LLVM::GlobalOp>("fcdp_manifest");
  output << cast<StringAttr>(global.getValueAttr()).getValue() << '\n';
}

LogicalResult Driver::predict(llvm::raw_ostream &stream) {
  MeshOp mesh = getMesh(*module);
  llvm::Expected<Cluster> cluster =
      loadCluster(options.step.pipeline.cluster, mesh.getNode(),
                  mesh.getLocal(), options.step.pipeline.profile);
  if (!cluster)
    return fail("--cluster: " + toString(cluster.takeError()));
  StepPrediction prediction = simulateOn(*module, *cluster).prediction;
  prediction.bounds = boundOn(*module, *cluster);
  printExposure(prediction, stream);
  return success();
}

LogicalResult Driver::convert() {
  progress.start("describing the step");
  PassManager pm(&context);
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

LogicalResult Driver::run() {
  if (options.remarks && failed(printRemarks(context, errors)))
    return fail("--remarks: cannot be printed");
  progress.start("reading " + options.input);
  module = readStep(options.input, context);
  if (!module ||
      failed(checkPastDecisions(*module, options.input, options.step)))
    return failure();
  if (failed(runPasses()))
    return failure();
  std::string summary;
  llvm::raw_string_ostream stream(summary);
  FailureOr<StepFacts> facts = measureStep(*module);
  if (failed(facts))
    return failure();
  printFacts(*facts, stream);
  if (!options.step.pipeline.cluster.empty() && failed(predict(stream)))
    return failure();
  if (failed(convert()))
    return failure();
  if (!options.output.empty() && failed(emit()))
    return failure();
  if (options.printManifest)
    printManifest();
  else
    output << summary;
  return success();
}

LogicalResult fcdp::compile(const CompileOptions &options,
                            llvm::raw_ostream &output,
                            llvm::raw_ostream &errors) {
  return Driver(options, output, errors).run();
}
